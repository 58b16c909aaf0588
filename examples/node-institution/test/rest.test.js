import test from 'node:test';
import assert from 'node:assert/strict';

import { apiTokenDigest, derive, joinMac, sha256 } from '../src/bytes.js';
import { expand, keyStream } from '../src/anchor.js';
import { StreamReader, checkValues, dequantise, quantise, toBytes, wholeDigest } from '../src/arrays.js';
import { TrustRoot, pemToDer } from '../src/certificates.js';
import { encodeField } from '../src/table.js';
import { decode } from '../src/layout.js';
import { checkChain } from '../src/ledger.js';
import { fromRows } from '../src/matrix.js';
import { ledgerEntry, uplinkManifest } from '../src/messages.js';
import { SUITE, anchorInfo, open, privateKeyOf, seedCommitment } from '../src/seal.js';
import { verify } from '../src/signed.js';
import { terms } from '../src/terms.js';
import { checkManifest } from '../src/uplink.js';
import { plainWords, plainWordsDigest } from '../src/words.js';
import { hex, judge, load, whole } from './vectors.js';

const text = (bytes) => Buffer.from(bytes).toString('hex');
function near(found, expected) {
  assert.equal(found.length, expected.length);
  found.forEach((value, index) => assert.ok(Math.abs(value - expected[index]) <= 1e-12, `${value} for ${expected[index]}`));
}

for (const given of load('anchors.json')) {
  test(`anchors: ${given.kind} of ${given.rows} x ${given.features}`, () => {
    assert.equal(text(keyStream(hex(given.seed), given.kind, 64)), given.key_stream_start);
    near([...expand(hex(given.seed), given.kind, given.rows, given.features).data], given.entries.flat());
  });
}

for (const given of load('encoded.json')) {
  test(`encoded: ${given.name}`, () => {
    given.fields.forEach((field, index) => near(encodeField(given.column, given.missing, field, given.since?.[index]), given.features[index]));
  });
}

test('keys: what is derived from a secret', () => {
  const keys = load('keys.json');
  for (const { secret, label, length, key } of keys.derive) assert.equal(text(derive(hex(secret), label, length)), key);
  for (const { secret, ticket, csr, chain, mac } of keys.join_mac) assert.equal(text(joinMac(hex(secret), hex(ticket), hex(csr), chain.map(hex))), mac);
  for (const { token, digest } of keys.api_token) assert.equal(text(apiTokenDigest(token)), digest);
  for (const { seed, commitment } of keys.seed_commitment) assert.equal(text(seedCommitment(hex(seed))), commitment);
  for (const { seed, collaboration_id: id, parties, hashing_key: hashing, part_key: part } of keys.row_keys) {
    assert.equal(text(derive(hex(seed), `odc/v1/row-keys\0${id}\0${parties.join(',')}`, 32)), hashing);
    assert.equal(text(derive(hex(seed), `odc/v1/row-part\0${id}\0${parties.join(',')}`, 32)), part);
  }
  for (const each of keys.anchor_info) assert.equal(text(anchorInfo(each.collaboration_id, hex(each.terms_digest), each.recipient)), each.info);
});

for (const given of load('ledgers.json')) {
  test(`ledgers: ${given.name}`, () => {
    const heads = judge(given.verdict, () => checkChain(given.collaboration_id, given.entries.map((entry) => decode(ledgerEntry, hex(entry)))));
    if (given.verdict === 'valid') assert.deepEqual(heads.map(text), given.heads);
  });
}

for (const given of load('plain_words.json')) {
  const agreed = decode(terms, hex(given.terms));
  test(`plain words: ${given.name}`, { skip: agreed.sums && 'this client takes no part in rounds with sums' }, () => {
    assert.equal(plainWords(agreed), given.text);
    assert.equal(text(plainWordsDigest(agreed)), given.digest);
  });
}

for (const given of load('scaled.json')) {
  test(`scaled: ${given.name}`, () => {
    const { values, scale } = quantise(fromRows(given.matrix, given.matrix[0].length));
    assert.deepEqual(values.map((value) => value + 0), given.values.flat());
    assert.equal(text(toBytes(scale, 'f4')), given.scale);
    assert.equal(text(toBytes(dequantise(given.values.flat(), scale), 'f4')), given.decoded);
  });
}

for (const given of load('sealing.json')) {
  test(`sealing: ${given.name}`, { skip: given.suite !== SUITE && 'Node has no ML-KEM: this client offers x25519' }, () => {
    const key = privateKeyOf(hex(given.private_key), hex(given.public_key));
    const plaintext = judge(given.verdict, () => open(key, hex(given.info), hex(given.ciphertext)));
    if (given.verdict === 'valid') assert.equal(text(plaintext), given.plaintext);
  });
}

const signed = load('signed.json');
const root = new TrustRoot(pemToDer(signed.root));

test('signed: the root names its consortium', () => assert.equal(root.consortiumId, signed.consortium_id));

for (const given of signed.messages) {
  test(`signed: ${given.name}`, () => {
    judge(given.verdict, () => verify(given.kind, whole(given), root, signed.at));
  });
}

for (const given of signed.certificates) {
  test(`certificates: ${given.name}`, () => {
    const found = judge(given.verdict, () => root.identify(whole(given), signed.at));
    if (given.verdict === 'valid') assert.equal(found.urn, given.urn);
  });
}

for (const given of signed.times) {
  test(`certificates: at ${given.at}`, () => {
    judge(given.verdict, () => root.identify(whole(signed.certificates[0]), given.at));
  });
}

const specsOf = (arrays) => arrays.map((each) => ({ ...each, digest: hex(each.digest.hex) }));

for (const given of load('streams.json')) {
  test(`streams: ${given.name}`, () => {
    const specs = specsOf(given.arrays);
    const data = whole(given);
    const label = given.classes ? { classes: Array.from({ length: given.classes }, (_, index) => String(index)) }
      : specs.some(({ name, dtype }) => name === 'labels' && dtype === 'f4') ? { kind: 'number' } : { classes: new Array(65536).fill('') };
    for (const step of [data.length || 1, 1000]) {
      const reader = new StreamReader(specs, given.chunk_bytes);
      let good = 0;
      const verdict = { incomplete: 'truncated', 'array-digest-mismatch': 'digest-mismatch' }[given.verdict] ?? given.verdict;
      judge(verdict, () => {
        for (let at = 0; at < data.length; at += step) {
          for (const chunk of reader.feed(data.subarray(at, at + step))) {
            good += 1;
            checkValues(specs[chunk.array], chunk.data, label);
          }
        }
        reader.finish();
      });
      assert.equal(good, given.good_chunks);
      if (given.verdict === 'valid') assert.equal(reader.length, data.length);
    }
    assert.equal(text(sha256(data)), given.stream_sha256);
  });
}

for (const given of load('uplinks.json')) {
  test(`uplinks: ${given.name}`, () => {
    const manifest = decode(uplinkManifest, hex(given.manifest));
    assert.equal(text(wholeDigest(manifest.arrays)), given.whole_digest);
    judge(given.verdict, () => checkManifest(manifest, decode(terms, hex(given.terms))));
  });
}
