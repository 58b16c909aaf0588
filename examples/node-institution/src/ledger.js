// The ledger (section 10): what a member checks of it.

import { equal, labelled } from './bytes.js';
import { refuse } from './errors.js';
import { encode } from './layout.js';
import { ledgerEntry } from './messages.js';

const broken = (detail) => refuse('ledger-broken', detail);

/** From each state: the events it takes, and where they lead. */
const ARROWS = {
  draft: { 'publish terms': 'enrolling', cancel: 'cancelled' },
  enrolling: { 'accept terms': 'enrolling', 'publish anchor': 'anchored', cancel: 'cancelled' },
  anchored: { 'begin uplink': 'collecting', 'exclude party': 'anchored', cancel: 'cancelled' },
  collecting: {
    'begin uplink': 'collecting', 'accept uplink': 'collecting', seal: 'sealed', 'exclude party': 'collecting', cancel: 'cancelled',
  },
  sealed: { 'begin alignment': 'aligning', 'exclude party': 'sealed', cancel: 'cancelled' },
  aligning: { 'begin training': 'training', fail: 'failed', resume: 'sealed' },
  training: {
    release: 'released', fail: 'failed', resume: 'sealed', 'exclude party': 'failed', 'suspect party': 'training', 'leave out rows': 'training',
  },
  released: {
    'fetch downlink': 'released', close: 'closed', 'accept terms': 'released', 'share anchor': 'released',
    'begin uplink': 'released', 'accept uplink': 'released', 'align consumer': 'released', 'refuse consumer': 'released',
  },
  failed: { resume: 'sealed', 'exclude party': 'failed', cancel: 'cancelled' },
  closed: {},
  cancelled: {},
};

export const entryDigest = (entry) => labelled('odc/v1/ledger-entry', encode(ledgerEntry, entry));
export const firstPrevious = (collaborationId) => labelled('odc/v1/ledger', collaborationId);

/** Check entries from 0 on, and return their heads after 0, 1, ... of them. */
export function checkChain(collaborationId, entries) {
  const heads = [firstPrevious(collaborationId)];
  const accepted = new Set();
  let state = 'draft';
  entries.forEach((entry, index) => {
    if (entry.index !== index) broken(`entry ${index} has another number`); // (1)
    if (!equal(entry.previous, heads.at(-1))) broken(`entry ${index} does not follow the one before`); // (2)
    const next = Object.hasOwn(ARROWS, state) && Object.hasOwn(ARROWS[state], entry.event) ? ARROWS[state][entry.event] : null;
    if (next === null || entry.state !== next) broken(`entry ${index} is no step from ${state}`); // (3)
    state = next;
    if (entry.event === 'accept uplink') { // (4)
      if (accepted.has(entry.party)) broken(`a second uplink of ${entry.party}`);
      accepted.add(entry.party);
    }
    heads.push(entryDigest(entry));
  });
  return heads;
}

/** Check a whole ledger under its signed head, and against the longest that was seen before. */
export function checkLedger(collaborationId, entries, head, seen = null) {
  const heads = checkChain(collaborationId, entries);
  if (head.collaboration_id !== collaborationId) broken('the head of another collaboration');
  if (head.length !== entries.length || !equal(head.digest, heads.at(-1))) broken('the head is not that of the entries');
  if (seen !== null && (entries.length < seen.length || !equal(heads[seen.length], seen.digest))) broken('not the ledger that was seen before');
  return { length: entries.length, digest: heads.at(-1) };
}

/** Require that a receipt names its own entry. */
export function checkReceipt(entries, heads, receipt) {
  const entry = entries[receipt.ledger_index];
  const found = entry !== undefined && entry.event === 'accept uplink' && entry.party === receipt.party
    && entry.subject !== null && equal(entry.subject, receipt.uplink_digest) && equal(heads[receipt.ledger_index + 1], receipt.ledger_digest);
  if (!found) broken('the receipt is not in the ledger');
}

/** What the ledger says of the release of a downlink's model, or of all models where groups have their own. */
export const releasedBy = ({ arrays, models }) => (models === undefined
  ? arrays.find(({ name }) => name === 'model').digest
  : labelled('odc/v1/models', Buffer.concat(models)));

/** Require that the last release is of this subject, and the fetch in a party's own name of this manifest. */
export function checkDownlink(entries, party, manifestDigest, released) {
  const release = entries.filter((entry) => entry.event === 'release').at(-1);
  if (release === undefined || release.subject === null || !equal(release.subject, released)) broken('the release of another model');
  const fetched = entries.filter((entry) => entry.event === 'fetch downlink' && entry.party === party);
  if (!fetched.length || !fetched.every((entry) => entry.subject !== null && equal(entry.subject, manifestDigest))) broken('another downlink was fetched in our name');
}

/** The parties whose uplinks the released model is made of, in the order in which they were accepted; null before the release. */
export function trainedOn(entries) {
  const release = entries.findIndex(({ event }) => event === 'release');
  if (release < 0) return null;
  const before = entries.slice(0, release);
  const computed = before.slice(before.findLastIndex(({ event }) => event === 'begin training') + 1); // others came to nothing
  const partiesOf = (some, named) => some.filter(({ event }) => event === named).map(({ party }) => party);
  const without = new Set([...partiesOf(before, 'exclude party'), ...partiesOf(computed, 'leave out rows')]);
  return partiesOf(before, 'accept uplink').filter((party) => !without.has(party));
}

/** Whether a party has sent an uplink in time, and the model was trained without it. */
export function isLeftOut(entries, party) {
  const trained = trainedOn(entries);
  const release = entries.findIndex(({ event }) => event === 'release');
  return trained !== null && !trained.includes(party)
    && entries.slice(0, release).some(({ event, party: by }) => event === 'accept uplink' && by === party);
}
