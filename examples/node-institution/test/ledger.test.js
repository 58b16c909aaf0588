import test from 'node:test';
import assert from 'node:assert/strict';

import { sha256 } from '../src/bytes.js';
import { TrustRoot, pemToDer } from '../src/certificates.js';
import { isSignedBy, merkleRoot, readCheckpoint } from '../src/checkpoint.js';
import { decode } from '../src/layout.js';
import { isLeftOut, trainedOn } from '../src/ledger.js';
import { ledgerEntry } from '../src/messages.js';
import {
  anchorFor, byAnalyst, receiptFor, termsFor,
} from '../src/received.js';
import { privateKeyOf } from '../src/seal.js';
import { requireSignedBy, verify, verifyKept } from '../src/signed.js';
import { terms } from '../src/terms.js';
import { hex, judge, load, whole } from './vectors.js';

const text = (bytes) => Buffer.from(bytes).toString('hex');
const decoded = (entries) => entries.map((entry) => decode(ledgerEntry, hex(entry)));

for (const given of load('ledgers.json').filter(({ roots }) => roots)) {
  test(`roots: ${given.name}`, () => {
    const entries = decoded(given.entries);
    given.roots.forEach((root, size) => assert.equal(text(merkleRoot(entries.slice(0, size))), root));
  });
}

for (const given of load('trained_on.json')) {
  test(`trained on: ${given.name}`, () => {
    const entries = given.steps.map(([event, party]) => ({ event, party }));
    assert.deepEqual(trainedOn(entries), given.trained_on);
    const parties = ['a', 'b', 'c', 'd'].filter((party) => isLeftOut(entries, party));
    const inTime = ['a', 'b', 'c'].filter((party) => given.trained_on && !given.trained_on.includes(party));
    assert.deepEqual(parties, inTime); // a late consumer, d, has not sent any rows
  });
}

const judged = load('judged.json');

for (const given of judged.messages) {
  test(`judged: ${given.name}`, () => {
    judge(given.verdict, () => {
      const root = new TrustRoot(pemToDer(judged.root));
      if (given.revocations) root.adopt(hex(given.revocations));
      const found = (given.held === 'sent' ? verify : verifyKept)(given.kind, hex(given.hex), root, given.at);
      if (given.held === 'filed') requireSignedBy(found, found.message.at);
      if (given.entered_at !== null) requireSignedBy(found, given.entered_at);
    });
  });
}

const received = load('received.json');
const agreed = { message: decode(terms, hex(received.terms)), digest: sha256(hex(received.terms)) };
const sealingKey = privateKeyOf(hex(received.sealing_key), hex(received.sealing_public_key));
const IN_ANSWERS = {
  Terms: (us, bytes) => termsFor(us, bytes),
  SealedAnchor: (us, bytes) => anchorFor(us, agreed, bytes, sealingKey),
  Receipt: (us, bytes) => receiptFor(us, agreed, bytes, hex(received.uplink_digest)),
  DownlinkManifest: (us, bytes) => byAnalyst(us, 'DownlinkManifest', bytes),
  LedgerHead: (us, bytes) => byAnalyst(us, 'LedgerHead', bytes),
};
// What the analyst answers with: the head alone is signed for the answer.
const inAnswers = judged.messages.filter(({ kind, held, entered_at: enteredAt }) => IN_ANSWERS[kind] && enteredAt === null && held === (kind === 'LedgerHead' ? 'sent' : 'kept'));

for (const given of inAnswers) {
  test(`judged in an answer: ${given.name}`, () => {
    const root = new TrustRoot(pemToDer(judged.root));
    if (given.revocations) root.adopt(hex(given.revocations));
    const us = {
      root, at: given.at, party: received.party, collaborationId: received.collaboration_id, knownAnalystKey: received.analyst_key, acceptedTerms: null,
    };
    judge(given.verdict, () => IN_ANSWERS[given.kind](us, hex(given.hex)));
  });
}

for (const given of judged.connections) {
  test(`judged: who connects with ${given.name}`, () => {
    judge(given.verdict, () => new TrustRoot(pemToDer(judged.root)).identify(hex(given.hex), given.at));
  });
}

const checkpoints = load('checkpoints.json');

for (const given of checkpoints.notes) {
  test(`checkpoints: ${given.name}`, () => {
    const root = new TrustRoot(pemToDer(judged.root)); // of the same people
    const known = Object.entries(checkpoints.certificates).map(([name, der]) => [name, root.identify(hex(der), judged.messages[0].at)]);
    judge(given.verdict, () => {
      const found = readCheckpoint(given.parts ? whole(given) : Buffer.from(given.text));
      const signedBy = known.filter(([, identity]) => isSignedBy(found, identity)).map(([name]) => name);
      assert.deepEqual(signedBy, given.signed_by);
      assert.deepEqual([found.collaborationId, found.size, text(found.root)], [checkpoints.collaboration_id, given.size, given.root]);
      assert.equal(text(merkleRoot(decoded(checkpoints.entries).slice(0, found.size))), given.root);
    });
  });
}
