// Signed messages (section 4).

import { sign as signBytes, verify as verifyBytes } from 'node:crypto';

import { orRefuse, refuse } from './errors.js';
import { join, sha256, ZERO } from './bytes.js';
import { decode, encode } from './layout.js';
import * as messages from './messages.js';
import { isP256, parse } from './certificates.js';
import { terms } from './terms.js';

/** The kinds of messages that are signed: label and layout. */
export const KINDS = {
  Terms: ['odc/v1/terms', terms],
  InvitationTicket: ['odc/v1/invitation-ticket', messages.invitationTicket],
  Renewal: ['odc/v1/renewal', messages.renewal],
  Acceptance: ['odc/v1/acceptance', messages.acceptance],
  SealedAnchor: ['odc/v1/sealed-anchor', messages.sealedAnchor],
  UplinkManifest: ['odc/v1/uplink', messages.uplinkManifest],
  Receipt: ['odc/v1/receipt', messages.receipt],
  DownlinkManifest: ['odc/v1/downlink', messages.downlinkManifest],
  LedgerHead: ['odc/v1/ledger-head', messages.ledgerHead],
  ForgettingStatement: ['odc/v1/forgetting', messages.forgettingStatement],
  EvidenceIndex: ['odc/v1/evidence-index', messages.evidenceIndex],
  MemberScore: ['odc/v1/member-score', messages.memberScore],
  SeenLedger: ['odc/v1/seen-ledger', messages.seenLedger],
};

const CLOCKS_APART_SECONDS = 300;

const covered = (label, payload) => join(label, ZERO, payload);

/** Sign a message as somebody: `{key, certificate}`. Returns the bytes and the digest of the payload. */
export function sign(kind, message, { key, certificate }) {
  const [label, layout] = KINDS[kind];
  const payload = encode(layout, message);
  const signature = signBytes('sha256', covered(label, payload), key);
  return { bytes: encode(messages.signed, { kind: label, payload, certificate, signature }), digest: sha256(payload) };
}

/** Verify bytes as a kind, at a time: the five steps, in their order. */
export const verify = (kind, bytes, root, at) => verifyAt(kind, bytes, root, () => at);

/** Verify what its author signed earlier, and somebody kept: the certificate may have ended since (section 10). */
export const verifyKept = (kind, bytes, root, now) => verifyAt(kind, bytes, root, ({ notAfter }) => Math.min(now, notAfter));

/** Require that the certificate had not ended when the ledger, which we have checked, has an entry of the message. */
export function requireSignedBy({ author }, enteredAt) {
  if (enteredAt - CLOCKS_APART_SECONDS > author.certificate.notAfter) refuse('certificate-refused', 'the certificate had ended before the ledger says that it signed');
}

function verifyAt(kind, bytes, root, timeFor) {
  const [label, layout] = KINDS[kind];
  const envelope = decode(messages.signed, bytes); // (1)
  if (envelope.kind !== label) refuse('malformed-message', `${envelope.kind} instead of ${label}`); // (2)
  if (envelope.algorithm !== undefined) refuse('unknown-algorithm', `signed with ${envelope.algorithm}, and this client knows ${messages.ALGORITHM}`);
  const author = root.identify(envelope.certificate, timeFor(parse(envelope.certificate))); // (3)
  if (!isP256(author.key)) refuse('certificate-refused', 'a key on another curve');
  const good = orRefuse('bad-signature', 'the signature cannot be read', () => // (4)
    verifyBytes('sha256', covered(label, envelope.payload), author.key, envelope.signature));
  if (!good) refuse('bad-signature', `the signature of ${label} does not hold`);
  return { message: decode(layout, envelope.payload), author, digest: sha256(envelope.payload), bytes }; // (5)
}
