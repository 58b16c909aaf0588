import test from 'node:test';
import assert from 'node:assert/strict';

import { expand } from '../src/anchor.js';
import { fromBytes, longestRow, toBytes } from '../src/arrays.js';
import { TrustRoot, pemToDer } from '../src/certificates.js';
import { DownlinkReader, checkDownlinkManifest, fetchParts } from '../src/downlink.js';
import {
  TAG, items, oidOf, whole as wholeDer,
} from '../src/der.js';
import { OdcError } from '../src/errors.js';
import { Connection, problemOf } from '../src/http.js';
import { readInvitation, requestCertificate } from '../src/invitation.js';
import { decode } from '../src/layout.js';
import { checkChain, checkDownlink, checkLedger, checkReceipt, releasedBy } from '../src/ledger.js';
import { fromRows, leading, multiply, rightSingularVectors, transpose } from '../src/matrix.js';
import { enrolment, ledgerEntry, ledgerHead, receipt, uplinkManifest } from '../src/messages.js';
import { anchorFor, byAnalyst, receiptFor, termsFor } from '../src/received.js';
import { privateKeyOf } from '../src/seal.js';
import { verify } from '../src/signed.js';
import { encodeLabels, encodeRows, readCsv } from '../src/table.js';
import { terms } from '../src/terms.js';
import { sendUplink } from '../src/uplink.js';
import { createPublicKey, generateKeyPairSync, verify as verifyBytes } from 'node:crypto';
import { hex, judge, load, whole } from './vectors.js';

const text = (bytes) => Buffer.from(bytes).toString('hex');
const near = (found, expected, tolerance = 1e-9) => [...found].forEach((value, index) => assert.ok(Math.abs(value - expected[index]) <= tolerance, `${value} for ${expected[index]}`));

const trust = load('trust.json');
const freshRoot = () => new TrustRoot(pemToDer(trust.root));

for (const given of trust.certificates) {
  test(`trust: ${given.name}`, () => { judge(given.verdict, () => freshRoot().identify(hex(given.hex), trust.at)); });
}

for (const given of trust.revocations) {
  test(`revocations: ${given.name}`, () => {
    const root = freshRoot();
    for (const list of given.lists) judge(list.verdict, () => root.adopt(hex(list.hex)));
    for (const one of given.certificates) judge(one.verdict, () => root.identify(hex(one.hex), trust.at));
  });
}

for (const given of trust.invitations) {
  test(`invitations: ${given.name}`, () => {
    const invitation = judge(given.verdict, () => readInvitation(given.text));
    if (given.verdict !== 'valid') return;
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
    const { ticket, csr } = decode(enrolment, requestCertificate(invitation, privateKey));
    assert.equal(ticket.toString('base64'), invitation.ticket);
    checkRequest(csr, createPublicKey(privateKey));
  });
}

/** A certificate request is a body with our key, an algorithm, and a signature by that key over the body. */
function checkRequest(csr, key) {
  const [body, algorithm, signature] = items(wholeDer(csr, TAG.sequence).content);
  assert.equal(oidOf(items(algorithm.content)[0].content), '1.2.840.10045.4.3.2');
  assert.ok(items(body.content)[2].all.equals(key.export({ format: 'der', type: 'spki' })));
  assert.ok(verifyBytes('sha256', body.all, key, signature.content.subarray(1)));
}

const received = load('received.json');
const us = (more = {}) => ({
  root: new TrustRoot(pemToDer(received.root)), at: received.at, party: received.party, collaborationId: received.collaboration_id,
  knownAnalystKey: received.analyst_key, acceptedTerms: null, ...more,
});
const agreed = { message: decode(terms, hex(received.terms)) };
agreed.digest = decode(uplinkManifest, hex(load('http.json').manifest)).terms_digest;
const sealingKey = privateKeyOf(hex(received.sealing_key), hex(received.sealing_public_key));

const RECEIVERS = {
  Terms: (bytes, { me }) => termsFor(us({ knownAnalystKey: me.known_analyst_key, acceptedTerms: me.accepted_terms }), bytes),
  SealedAnchor: (bytes) => assert.equal(text(anchorFor(us(), agreed, bytes, sealingKey).seed), received.seed),
  Receipt: (bytes) => receiptFor(us(), agreed, bytes, hex(received.uplink_digest)),
  LedgerHead: (bytes) => byAnalyst(us(), 'LedgerHead', bytes),
};

for (const given of received.messages) {
  test(`received: ${given.name}`, () => { judge(given.verdict, () => RECEIVERS[given.kind](hex(given.hex), given)); });
}

for (const given of received.downlinks) {
  test(`downlinks: ${given.name}`, () => {
    const data = whole(given);
    assert.equal(data.length, given.bytes);
    for (const step of [data.length || 1, 997]) {
      judge(given.verdict, () => {
        const reader = new DownlinkReader((bytes) => {
          const verified = byAnalyst(us(), 'DownlinkManifest', bytes);
          checkDownlinkManifest(verified.message, {
            collaborationId: received.collaboration_id, termsDigest: agreed.digest, party: received.party,
            uplinkDigest: hex(received.uplink_digest), terms: agreed.message,
          });
          return verified;
        });
        for (let at = 0; at < data.length; at += step) reader.feed(data.subarray(at, at + step));
        reader.finish();
      });
    }
  });
}

for (const given of load('checks.json')) {
  test(`checks: ${given.name}`, () => {
    const entries = given.entries.map((entry) => decode(ledgerEntry, hex(entry)));
    judge(given.verdict, () => {
      const seen = given.seen && { length: given.seen.length, digest: hex(given.seen.digest) };
      checkLedger(given.collaboration_id, entries, decode(ledgerHead, hex(given.head)), seen);
      if (given.receipt) checkReceipt(entries, checkChain(given.collaboration_id, entries), decode(receipt, hex(given.receipt)));
      if (!given.downlink) return;
      const { party, manifest, model, models } = given.downlink;
      const released = releasedBy({ arrays: [{ name: 'model', digest: hex(model) }], models: models?.map(hex) });
      checkDownlink(entries, party, hex(manifest), released);
    });
  });
}

const numbers = load('numbers.json');

for (const given of numbers.rounded) {
  test(`numbers: ${given.dtype}`, () => {
    assert.equal(text(toBytes(given.values, given.dtype)), given.hex);
    assert.equal(text(toBytes(fromBytes(hex(given.hex), given.dtype), given.dtype)), given.hex);
  });
}

for (const given of numbers.tables) {
  test(`tables: ${given.name}`, () => {
    if (given.columns) return near([longestRow(given.columns)], [given.longest], 1e-12);
    return judge(given.verdict, () => {
      const rows = readCsv(given.text);
      const matrix = encodeRows(given.schema, rows);
      const { values, dtype } = encodeLabels(given.schema, rows);
      near(matrix.data, given.matrix.flat(), 1e-12);
      assert.deepEqual(values, given.labels);
      assert.equal(dtype, given.dtype);
    });
  });
}

for (const given of load('bases.json')) {
  test(`bases: ${given.rows.length} rows, ${given.latent_dim} dimensions`, () => {
    const [rows, columns] = [given.rows.length, given.rows[0].length];
    const x = fromRows(given.rows, columns);
    const found = leading(rightSingularVectors(x), given.latent_dim);
    near(multiply(found, transpose(found)).data, given.projector.flat());
    const basis = fromRows(given.basis, given.latent_dim);
    near(multiply(transpose(basis), basis).data, multiply(transpose(found), found).data);
    near(multiply(x, basis).data, given.rep.flat());
    near(multiply(expand(hex(given.seed), 'haar', columns, columns), basis).data, given.anchor_rep.flat());
    assert.equal(x.rows, rows);
  });
}

const http = load('http.json');

/** A connection whose lines are the steps of a case. */
class Scripted extends Connection {
  constructor(answer) {
    super('https://analyst.example', '', null, async () => {});
    this.answer = answer;
  }

  async once(method, path, options = {}) {
    return this.answer(method, path, { headers: {}, ...options });
  }
}

const answerOf = ({ status, headers, json, hex: data }) => ({ status, headers, body: data ? hex(data) : Buffer.from(json === undefined || json === null ? '' : JSON.stringify(json)) });

for (const given of http.problems) {
  test(`problems: ${given.name}`, () => {
    const error = problemOf(answerOf(given));
    assert.equal(error.slug, given.slug ?? `http-${given.status}`);
    if (given.retry_after_s !== undefined) assert.equal(error.retryAfterSeconds, given.retry_after_s);
    if (given.expected !== undefined) assert.equal(error.expected, given.expected);
  });
}

const judgeAsync = async (verdict, action) => {
  const thrown = await action().then(() => null, (error) => error);
  if (verdict === 'valid') return assert.equal(thrown, null, thrown?.stack);
  assert.ok(thrown instanceof OdcError, `not one of ours: ${thrown?.stack}`);
  return verdict === 'refused' || assert.equal(thrown.slug, verdict);
};

for (const given of http.uploads) {
  test(`uploads: ${given.name}`, async () => {
    const [manifest, stream] = [hex(http.manifest), hex(http.stream)];
    const steps = [...given.steps];
    let stands = given.begins;
    const connection = new Scripted((method, path, { body, headers }) => {
      const names = { 'upload-offset': String(stands.offset), 'upload-begun': String(stands.begun) };
      if (method === 'POST') {
        assert.ok(body.equals(manifest));
        assert.equal(headers['content-type'], 'application/vnd.odc.v1+msgpack');
        assert.equal(path, `/v1/collaborations/${http.collaboration_id}/uplinks`);
        const json = { upload_id: http.upload_id, ...given.begins, length: stream.length };
        return answerOf({ status: 201, headers: { 'content-type': 'application/json' }, json });
      }
      assert.equal(path, `/v1/uploads/${http.upload_id}`);
      if (method === 'HEAD') return { status: 204, headers: names, body: Buffer.alloc(0) };
      const step = steps.shift();
      assert.ok(step, 'a request too many');
      assert.equal(method, 'PATCH');
      assert.equal(headers['upload-offset'], String(step.at));
      assert.equal(headers['upload-complete'], '?1');
      assert.equal(headers['content-type'], 'application/partial-upload');
      assert.equal(headers['odc-whole-digest'], http.whole_digest);
      assert.equal(headers['repr-digest'], http.repr_digest);
      assert.ok(body.equals(stream.subarray(step.at)));
      stands = step.stands ?? stands;
      if (step.break) throw new Error('the line broke');
      return answerOf(step.answer);
    });
    const { arrays } = decode(uplinkManifest, manifest);
    await judgeAsync(given.verdict, async () => {
      const answer = await sendUplink(connection, http.collaboration_id, manifest, arrays, stream);
      assert.equal(text(answer), http.receipt);
    });
    assert.equal(steps.length, 0);
  });
}

for (const given of http.downloads) {
  test(`downloads: ${given.name}`, async () => {
    const steps = [...given.steps];
    const all = Buffer.from(Array.from({ length: 100 }, (_, index) => index));
    const connection = new Scripted((method, path, { headers, onData }) => {
      const { at, if_range: ifRange, answer, break: breaks } = steps.shift() ?? assert.fail('a request too many');
      assert.equal(method, 'GET');
      assert.equal(headers.range, `bytes=${at}-`);
      assert.equal(headers['if-range'] ?? null, ifRange ?? null);
      if (answer.status >= 400) return answerOf(answer);
      onData(all.subarray(answer.from, answer.to), { statusCode: answer.status, headers: answer.headers });
      if (breaks) throw new Error('the line broke');
      return answerOf(answer);
    });
    let got = Buffer.alloc(0);
    await judgeAsync(given.verdict, async () => {
      await fetchParts(connection, '/downlink', () => { got = Buffer.alloc(0); }, (part) => { got = Buffer.concat([got, part]); });
      assert.ok(got.equals(all));
    });
    assert.equal(steps.length, 0);
  });
}

test('a Signed by us is one that others believe', async () => {
  const { sign } = await import('../src/signed.js');
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const head = { collaboration_id: received.collaboration_id, length: 1, digest: Buffer.alloc(32), at: 0 };
  const { bytes } = sign('LedgerHead', head, { key: privateKey, certificate: hex(trust.certificates[0].hex) });
  judge('bad-signature', () => verify('LedgerHead', bytes, freshRoot(), trust.at)); // the certificate is of another key
});
