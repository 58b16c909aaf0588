#!/usr/bin/env node
// odc-node COMMAND: an institution's part of a round. The state directory is ODC_NODE_HOME, or ./odc-node.

import { readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { parseArgs } from 'node:util';

import { OdcError, refuse } from './errors.js';
import { Home } from './home.js';
import { Institution, basisOf } from './institution.js';
import { readCsv } from './table.js';
import { featuresOf, latentDimsOf } from './terms.js';

const USAGE = `usage: odc-node COMMAND
  join INVITATION [--wait SECONDS] [--yes]      ask for a certificate; the root's fingerprint is shown first
  status                                        where the collaboration stands
  accept [--yes] [--accept-row-revealing-model] read the terms in plain words, and sign them
  contribute [TABLE.csv] [--yes] [--basis FILE] [--accept-weak-signal] [--wait SECONDS]
                                                send the projections of the rows, or none; get the receipt
  receive [--wait SECONDS]                      fetch the model; says whose rows trained it
  ledger                                        check the ledger, and the checkpoint that others see
  predict TABLE.csv --out FILE.csv              predict on this machine
  each with --collaboration ID where there are several`;

const OPTIONS = {
  wait: { type: 'string', default: '0' }, yes: { type: 'boolean', default: false }, basis: { type: 'string' }, out: { type: 'string' },
  collaboration: { type: 'string' }, 'accept-row-revealing-model': { type: 'boolean', default: false },
  'accept-weak-signal': { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h', default: false },
};

const home = () => new Home(process.env.ODC_NODE_HOME ?? 'odc-node');
const say = (value) => process.stdout.write(`${typeof value === 'string' ? value : JSON.stringify(value, (_, each) => (each instanceof Uint8Array || each?.type === 'Buffer' ? Buffer.from(each.data ?? each).toString('hex') : each))}\n`);

/** Spell out what nobody sees, so that a text cannot pass for another. */
export const visible = (text) => text.replace(/[^\P{C}\n]|\p{Default_Ignorable_Code_Point}/gu, (each) => `<U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}>`);

const LEFT_OUT = 'the model is trained without our rows: what it predicts for us may be worthless';
const warn = (text) => process.stderr.write(`odc-node: warning: ${text}\n`);

async function agree(question, yes) {
  if (yes) return;
  if (!process.stdin.isTTY) refuse('input-error', 'nobody to ask: give --yes');
  const asked = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await asked.question(`${question} [yes/no] `);
  asked.close();
  if (answer.trim() !== 'yes') refuse('input-error', 'not agreed');
}

/** A field of a CSV file, which no spreadsheet takes for a formula. */
function field(text) {
  const safe = /^[=+\-@]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const COMMANDS = {
  async join([invitation], { wait, yes }) {
    const text = invitation === undefined ? refuse('input-error', 'name the invitation file') : readFileSync(invitation, 'utf8');
    const institution = Institution.begin(home(), text);
    try {
      say(`root fingerprint: ${institution.member.fingerprint.match(/.{4}/g).join(' ')}`);
      await agree('Is it the one that the lead institution has?', yes);
      const deadline = Date.now() + 1000 * Number(wait);
      while (!await institution.join()) {
        if (Date.now() >= deadline) return say({ joined: false });
        await institution.connection.wait(1);
      }
      return say({ joined: true, party: institution.member.party });
    } finally {
      institution.close();
    }
  },

  status: (_, options) => inRound(options, async (round) => {
    const status = await round.status();
    say(status);
    if (status.members.some((each) => each.party === round.party && each.left_out)) warn(LEFT_OUT);
  }),

  accept: (_, options) => inRound(options, async (round) => {
    const agreed = await round.terms();
    say(visible(round.words(agreed)));
    await agree('Sign these terms?', options.yes);
    await round.accept(agreed, { acceptRowRevealingModel: options['accept-row-revealing-model'] });
  }),

  contribute: ([table], options) => inRound(options, async (round) => {
    const agreed = await round.terms();
    const rows = table === undefined ? [] : readCsv(readFileSync(table, 'utf8'));
    const basis = options.basis === undefined ? null : basisOf(readFileSync(options.basis), featuresOf(agreed.message, round.party).length, latentDimsOf(agreed.message, round.party)[1]);
    await round.waitFor(({ state }) => !['draft', 'enrolling'].includes(state), Number(options.wait));
    await agree(`Send the projections of ${rows.length} rows?`, options.yes);
    const receipt = await round.contribute(agreed, rows, { basis, acceptWeakSignal: options['accept-weak-signal'] });
    say({ payload_bytes: Number(receipt.payload_bytes), uplink_digest: receipt.uplink_digest });
  }),

  receive: (_, options) => inRound(options, async (round) => {
    const agreed = await round.terms();
    await round.waitFor(({ state }) => state === 'released', Number(options.wait));
    const { manifest, trainedOn, leftOut } = await round.receive(agreed);
    say({ model_parameters: Number(manifest.model_parameters), trained_on: trainedOn, left_out: leftOut });
    if (leftOut) warn(LEFT_OUT);
  }),

  ledger: (_, options) => inRound(options, async (round) => {
    const { size, root, trainedOn } = await round.checkpoint(await round.terms());
    say({ entries: size, root, trained_on: trainedOn });
  }),

  predict: ([table], options) => inRound(options, async (round) => {
    const agreed = await round.terms();
    if (table === undefined || options.out === undefined) refuse('input-error', 'name a table, and a file with --out');
    const { classes } = agreed.message.table_schema.label_column;
    const predicted = round.predict(agreed, readCsv(readFileSync(table, 'utf8')));
    const lines = [['prediction', ...classes], ...predicted.map(({ label, probabilities }) => [label, ...probabilities.map(String)])];
    writeFileSync(options.out, lines.map((line) => `${line.map(field).join(',')}\n`).join(''), { mode: 0o600 });
    say({ rows: predicted.length });
  }),
};

async function inRound(options, action) {
  const institution = new Institution(home());
  try {
    await action(await institution.collaboration(options.collaboration ?? null));
  } finally {
    institution.close();
  }
}

/** The arguments, or why they are none, in the first sentence of what Node says of them. */
function given() {
  try {
    return parseArgs({ options: OPTIONS, allowPositionals: true });
  } catch (error) {
    return { wrong: error.message.split('. ')[0] };
  }
}

async function main() {
  const { wrong, values, positionals: [command, ...others] = [] } = given();
  if (wrong !== undefined) {
    process.stderr.write(`odc-node: error: ${visible(wrong)}\n${USAGE}\n`);
    process.exitCode = 2;
    return;
  }
  if (values.help) {
    process.stdout.write(`${USAGE}\n`);
    return;
  }
  if (!Object.hasOwn(COMMANDS, command ?? '')) {
    process.stderr.write(`${USAGE}\n`);
    process.exitCode = 2;
    return;
  }
  await COMMANDS[command](others, values);
}

main().catch((error) => {
  const known = error instanceof OdcError;
  process.stderr.write(`odc-node: error: ${known ? `${error.slug}: ${visible(error.message)}` : error.stack}\n`);
  process.exitCode = known ? 1 : 70;
});
