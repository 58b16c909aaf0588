// HPKE (RFC 9180), mode base, single shot, suite `x25519` of section 7:
// DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305.

import {
  createCipheriv, createDecipheriv, createHmac, createPrivateKey, createPublicKey, diffieHellman, generateKeyPairSync,
} from 'node:crypto';

import { orRefuse, refuse } from './errors.js';
import { join, labelled, ZERO } from './bytes.js';

export const SUITE = 'x25519';
const KEM_SUITE = join('KEM', [0x00, 0x20]);
const HPKE_SUITE = join('HPKE', [0x00, 0x20, 0x00, 0x01, 0x00, 0x03]);
const base64url = (bytes) => Buffer.from(bytes).toString('base64url');

export const privateKeyOf = (raw, publicRaw) => createPrivateKey({
  key: { kty: 'OKP', crv: 'X25519', d: base64url(raw), x: base64url(publicRaw) }, format: 'jwk',
});
const publicKeyOf = (raw) => createPublicKey({ key: { kty: 'OKP', crv: 'X25519', x: base64url(raw) }, format: 'jwk' });
export const rawPublic = (key) => Buffer.from(createPublicKey(key).export({ format: 'jwk' }).x, 'base64url');
export const generate = () => generateKeyPairSync('x25519').privateKey;

const hmac = (key, data) => createHmac('sha256', key).update(data).digest();
const extract = (suite, salt, label, secret) => hmac(salt.length ? salt : Buffer.alloc(32), join('HPKE-v1', suite, label, secret));

function expand(suite, key, label, info, length) {
  const size = Buffer.from([length >> 8, length & 0xff]);
  return hmac(key, join(size, 'HPKE-v1', suite, label, info, [1])).subarray(0, length); // one block of HKDF is enough
}

function sharedSecret(own, other, encapsulated, recipient) {
  const agreed = diffieHellman({ privateKey: own, publicKey: other });
  const prk = extract(KEM_SUITE, Buffer.alloc(0), 'eae_prk', agreed);
  return expand(KEM_SUITE, prk, 'shared_secret', join(encapsulated, recipient), 32);
}

function keySchedule(shared, info) {
  const empty = Buffer.alloc(0);
  const context = join(ZERO, extract(HPKE_SUITE, empty, 'psk_id_hash', empty), extract(HPKE_SUITE, empty, 'info_hash', info));
  const secret = extract(HPKE_SUITE, shared, 'secret', empty);
  return { key: expand(HPKE_SUITE, secret, 'key', context, 32), nonce: expand(HPKE_SUITE, secret, 'base_nonce', context, 12) };
}

/** Open `enc || ct`; whatever is wrong with it is `seal-broken`. */
export function open(privateKey, info, sealed) {
  return orRefuse('seal-broken', 'the sealed anchor does not open', () => {
    if (sealed.length < 48) refuse('seal-broken', 'the sealed anchor is too short');
    const [encapsulated, text, tag] = [sealed.subarray(0, 32), sealed.subarray(32, -16), sealed.subarray(-16)];
    const shared = sharedSecret(privateKey, publicKeyOf(encapsulated), encapsulated, rawPublic(privateKey));
    const { key, nonce } = keySchedule(shared, info);
    const cipher = createDecipheriv('chacha20-poly1305', key, nonce, { authTagLength: 16 });
    cipher.setAuthTag(tag);
    return join(cipher.update(text), cipher.final());
  });
}

/** Seal for a public key: what the lead does, and what the tests need. */
export function seal(publicRaw, info, plaintext) {
  const own = generate();
  const encapsulated = rawPublic(own);
  const { key, nonce } = keySchedule(sharedSecret(own, publicKeyOf(publicRaw), encapsulated, publicRaw), info);
  const cipher = createCipheriv('chacha20-poly1305', key, nonce, { authTagLength: 16 });
  return join(encapsulated, cipher.update(plaintext), cipher.final(), cipher.getAuthTag());
}

export const anchorInfo = (collaborationId, termsDigest, recipient) =>
  join('odc/v1/sealed-anchor', ZERO, collaborationId, termsDigest, recipient);

export const seedCommitment = (seed) => labelled('odc/v1/anchor-commitment', seed);

/** Open a SealedAnchor as its recipient, and check it against the terms that were signed. */
export function openAnchor(sealed, { collaborationId, termsDigest, party, privateKey }) {
  const broken = (detail) => refuse('seal-broken', detail);
  if (sealed.recipient !== party) broken('sealed for somebody else');
  if (sealed.collaboration_id !== collaborationId || !termsDigest.equals(sealed.terms_digest)) broken('sealed for other terms');
  if (sealed.sealing_suite !== SUITE) broken('sealed by another suite');
  if (sealed.form !== 'seed') broken('this client takes no public anchor');
  const seed = open(privateKey, anchorInfo(collaborationId, termsDigest, party), sealed.ciphertext);
  if (seed.length !== 32 || !seedCommitment(seed).equals(sealed.commitment)) broken('not the seed that was committed to');
  return seed;
}
