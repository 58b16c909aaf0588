// Who somebody is: the root, certificates and revocation lists of section 3.

import { createPublicKey, sign, verify } from 'node:crypto';

import { refuse, orRefuse } from './errors.js';
import { equal, sha256 } from './bytes.js';
import { TAG, items, oid, oidOf, read, sequence, timeOf, whole, write } from './der.js';
import { isId, isParty } from './layout.js';

const ECDSA_WITH_SHA256 = '1.2.840.10045.4.3.2';
const EXTENSION = {
  subjectKeyIdentifier: '2.5.29.14', keyUsage: '2.5.29.15', subjectAltName: '2.5.29.17', basicConstraints: '2.5.29.19',
  crlNumber: '2.5.29.20', nameConstraints: '2.5.29.30', certificatePolicies: '2.5.29.32',
  authorityKeyIdentifier: '2.5.29.35', extendedKeyUsage: '2.5.29.37',
};
const UNDERSTOOD = ['keyUsage', 'subjectAltName', 'basicConstraints', 'extendedKeyUsage'].map((each) => EXTENSION[each]);
const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2';
const SERIAL_NUMBER = '2.5.4.5';
const MAX_REVOCATION_LIST_BYTES = 4194304;

const refused = (detail) => refuse('certificate-refused', detail);

/** The DER of the one certificate that a PEM text is; a TLS library would trust all that stands beside it. */
export function pemToDer(pem) {
  const found = /^-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----\s*$/.exec(pem);
  return found ? Buffer.from(found[1], 'base64') : refused('something else than one certificate in PEM');
}

export const toPem = (der, kind = 'CERTIFICATE') =>
  `-----BEGIN ${kind}-----\n${der.toString('base64').replace(/(.{64})(?=.)/g, '$1\n')}\n-----END ${kind}-----\n`;

/** The three parts of everything that is signed in X.509: what is, by which algorithm, the signature. */
function signedParts(der) {
  const parts = items(whole(der, TAG.sequence).content);
  if (parts.length !== 3 || parts[0].tag !== TAG.sequence || parts[2].tag !== TAG.bits) refused('not signed as X.509');
  if (parts[2].content[0] !== 0) refused('a signature with unused bits');
  const algorithm = oidOf(items(parts[1].content)[0].content);
  return { body: parts[0], algorithm: parts[1].all, usesEcdsa: algorithm === ECDSA_WITH_SHA256, signature: parts[2].content.subarray(1) };
}

function extensionsOf(content) {
  const found = new Map();
  for (const { content: one } of items(whole(content, TAG.sequence).content)) {
    const parts = items(one);
    const id = oidOf(parts[0].content);
    if (found.has(id)) refused('an extension twice');
    found.set(id, { critical: parts.length === 3 && parts[1].content[0] !== 0, value: parts.at(-1).content });
  }
  return found;
}

/** Read a certificate; nothing of it is believed yet. */
export function parse(der) {
  return orRefuse('certificate-refused', 'not a certificate', () => {
    const { body, algorithm, usesEcdsa, signature } = signedParts(der);
    const fields = items(body.content);
    if (fields[0].tag !== 0xa0 || fields[0].content.at(-1) !== 2) refused('not an X.509 certificate of version 3');
    const [, serial, inner, issuer, validity, subject, key] = fields;
    if (!inner.all.equals(algorithm)) refused('two signature algorithms');
    const extensions = fields.find((each) => each.tag === 0xa3);
    const [notBefore, notAfter] = items(validity.content).map(timeOf);
    return {
      der, body: body.all, usesEcdsa, signature, serial: serial.content.toString('hex'), issuer: issuer.all, subject, notBefore, notAfter,
      spki: key.all, publicKey: createPublicKey({ key: key.all, format: 'der', type: 'spki' }),
      extensions: extensions ? extensionsOf(extensions.content) : new Map(),
    };
  });
}

const holds = (key, { body, usesEcdsa, signature }) => usesEcdsa && orRefuse('certificate-refused', 'the signature cannot be read', () =>
  verify('sha256', body, key, signature));

export const isP256 = (key) => key.asymmetricKeyType === 'ec' && key.asymmetricKeyDetails.namedCurve === 'prime256v1';

/** `urn:odc:CONSORTIUM:ROLE:NAME` as its parts. */
export function parseUrn(urn) {
  const parts = urn.split(':');
  const [scheme, namespace, consortiumId, role, name] = parts;
  const known = parts.length === 5 && scheme === 'urn' && namespace === 'odc';
  if (!known || !isId(consortiumId) || !['lead', 'institution', 'analyst'].includes(role) || !isParty(name)) refused('no name of a member');
  return { consortiumId, role, name, urn };
}

const mayIssue = (extension) => extension !== undefined
  && items(whole(extension.value, TAG.sequence).content).some(({ tag, content }) => tag === TAG.boolean && content[0] !== 0);
/** Whether a keyUsage, where there is one, lets the key sign messages and no certificates. */
const maySign = (extension) => {
  if (extension === undefined) return true;
  const bits = whole(extension.value, TAG.bits).content; // unused bits, then the bits
  return bits.length >= 2 && (bits[1] & 0x80) !== 0 && !(bits[1] & 0x04); // digitalSignature is 0, keyCertSign is 5
};

/** A consortium: its root certificate, which somebody has compared, and the newest revocation list. */
export class TrustRoot {
  constructor(der) {
    this.certificate = parse(der);
    this.fingerprint = sha256(der).toString('hex');
    const names = items(this.certificate.subject.content).flatMap(({ content }) => items(content));
    const ids = names.map(({ content }) => items(content)).filter(([type]) => oidOf(type.content) === SERIAL_NUMBER);
    if (ids.length !== 1) refused('the root does not name its consortium once');
    this.consortiumId = ids[0][1].content.toString();
    if (!isId(this.consortiumId)) refused('the root does not name a consortium');
    this.revoked = new Set();
    this.revocationNumber = null;
    this.revocationList = null;
  }

  /** Return whom a certificate names, at a time: section 3, rule by rule. */
  identify(der, at) {
    const found = parse(der);
    const { extensions } = found;
    if (!found.issuer.equals(this.certificate.subject.all) || !holds(this.certificate.publicKey, found)) refused('not signed by the root');
    if (at < found.notBefore || at > found.notAfter) refused('outside its validity');
    if (mayIssue(extensions.get(EXTENSION.basicConstraints))) refused('it may issue certificates');
    for (const each of ['authorityKeyIdentifier', 'subjectAltName']) {
      if (!extensions.has(EXTENSION[each])) refused(`it has no ${each}`);
    }
    for (const [id, { critical }] of extensions) if (critical && !UNDERSTOOD.includes(id)) refused(`critical, and not known: ${id}`);
    if (!maySign(extensions.get(EXTENSION.keyUsage))) refused('its key is not for signing messages');
    const purposes = extensions.get(EXTENSION.extendedKeyUsage);
    if (purposes !== undefined) {
      if (purposes.critical) refused('a critical extendedKeyUsage');
      const allowed = items(whole(purposes.value, TAG.sequence).content).map(({ content }) => oidOf(content));
      if (!allowed.includes(CLIENT_AUTH)) refused('not for clients');
    }
    const names = items(whole(extensions.get(EXTENSION.subjectAltName).value, TAG.sequence).content);
    const uris = names.filter(({ tag }) => tag === 0x86).map(({ content }) => content.toString('latin1'));
    if (uris.length !== 1) refused('not exactly one URI');
    const identity = parseUrn(uris[0]);
    if (identity.consortiumId !== this.consortiumId) refused('of another consortium');
    if (this.revoked.has(found.serial)) refuse('certificate-revoked', 'the certificate was revoked');
    return { ...identity, certificate: found, key: found.publicKey };
  }

  /** Take a newer revocation list, or the same; refuse one that is older or not the root's. */
  adopt(der) {
    if (der.length > MAX_REVOCATION_LIST_BYTES) refused('a revocation list that is too long');
    const { number, serials } = orRefuse('certificate-refused', 'not a revocation list', () => this.readList(der));
    if (this.revocationNumber !== null && number < this.revocationNumber) refused('an older revocation list');
    if (number === this.revocationNumber && !equal(der, this.revocationList)) refused('another revocation list with the same number');
    this.revocationNumber = number;
    this.revocationList = der;
    this.revoked = serials;
  }

  readList(der) {
    const { body, usesEcdsa, signature } = signedParts(der);
    if (!holds(this.certificate.publicKey, { body: body.all, usesEcdsa, signature })) refused('a list that the root has not signed');
    const fields = items(body.content);
    if (!fields[2].all.equals(this.certificate.subject.all)) refused('a list of somebody else');
    const last = fields.at(-1);
    const extensions = last.tag === 0xa0 ? extensionsOf(last.content) : new Map();
    if (!extensions.has(EXTENSION.crlNumber)) refused('a list without a number');
    const number = BigInt(`0x${whole(extensions.get(EXTENSION.crlNumber).value, TAG.integer).content.toString('hex')}`);
    const revoked = fields.slice(5).find(({ tag }) => tag === TAG.sequence);
    const serials = revoked ? items(revoked.content).map(({ content }) => read(content).content.toString('hex')) : [];
    return { number, serials: new Set(serials) };
  }
}

/** A certificate request (PKCS #10) for this key. */
export function certificateRequest(privateKey, commonName) {
  const spki = createPublicKey(privateKey).export({ format: 'der', type: 'spki' });
  const subject = sequence(write(TAG.set, sequence(oid('2.5.4.3'), write(TAG.utf8, commonName))));
  const body = sequence(write(TAG.integer, [0]), subject, spki, write(0xa0));
  const signature = sign('sha256', body, privateKey);
  return sequence(body, sequence(oid(ECDSA_WITH_SHA256)), write(TAG.bits, [0], signature));
}
