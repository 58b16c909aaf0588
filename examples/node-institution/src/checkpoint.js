// A ledger as a text that whoever is no member can keep and cosign (section 10): a checkpoint, which is a signed note of C2SP.

import { verify } from 'node:crypto';

import { ZERO, equal, sha256 } from './bytes.js';
import { orRefuse, refuse } from './errors.js';
import { encode } from './layout.js';
import { ledgerEntry } from './messages.js';

const MAX_NOTE_BYTES = 1048576;
const KEY_ID_BYTES = 4;
const ORIGIN = 'odc-ledger/v1/';
const TEXT = new RegExp(`^${ORIGIN}([0-9a-f]{32})\n(0|[1-9][0-9]{0,15})\n([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)$`);
const LINE = /^\u2014 ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/;
const ONE = Buffer.from([1]);
const malformed = (detail) => refuse('malformed-message', detail);

const leafHash = (entry) => sha256(ZERO, encode(ledgerEntry, entry));
const rootOf = (leaves) => {
  if (leaves.length < 2) return leaves[0] ?? sha256('');
  let left = 1;
  while (2 * left < leaves.length) left *= 2;
  return sha256(ONE, rootOf(leaves.slice(0, left)), rootOf(leaves.slice(left)));
};

/** The Merkle tree hash of RFC 6962 over entries. */
export const merkleRoot = (entries) => rootOf(entries.map(leafHash));

/** Read a checkpoint with the signatures under it; none of them is verified yet. */
export function readCheckpoint(bytes) {
  if (bytes.length > MAX_NOTE_BYTES) refuse('limit-exceeded', 'a checkpoint that is too long');
  const note = orRefuse('malformed-message', 'a checkpoint that is no UTF-8', () => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  const end = note.indexOf('\n\n');
  const [, collaborationId, size, root] = TEXT.exec(note.slice(0, Math.max(end, 0))) ?? malformed('not the three lines of a checkpoint');
  const lines = note.slice(end + 2).split('\n');
  if (lines.length < 2 || lines.pop() !== '') malformed('no signatures, or no end of the last line');
  const signatures = lines.map((line) => {
    const [, name, written] = LINE.exec(line) ?? malformed('a line that is no signature');
    const data = Buffer.from(written, 'base64');
    return { name, keyId: data.subarray(0, KEY_ID_BYTES), signature: data.subarray(KEY_ID_BYTES) };
  });
  return { collaborationId, size: Number(size), root: Buffer.from(root, 'base64'), text: note.slice(0, end + 1), signatures };
}

/** The name in a checkpoint of whom a certificate names. */
export const nameInNote = (identity, collaborationId) => (identity.role === 'analyst' ? `${ORIGIN}${collaborationId}` : identity.urn);

/** Whether this member has signed; a line with its name and its key that does not verify is refused, whatever the others say. */
export function isSignedBy(checkpoint, identity) {
  const name = nameInNote(identity, checkpoint.collaborationId);
  const keyId = sha256(identity.certificate.spki).subarray(0, KEY_ID_BYTES);
  const own = checkpoint.signatures.filter((each) => each.name === name && equal(each.keyId, keyId));
  for (const { signature } of own) {
    const holds = orRefuse('bad-signature', 'the signature cannot be read', () => verify('sha256', Buffer.from(checkpoint.text), identity.key, signature));
    if (!holds) refuse('bad-signature', `the checkpoint was not signed by ${name}`);
  }
  return own.length > 0;
}
