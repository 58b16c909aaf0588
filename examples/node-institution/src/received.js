// What a member was sent, and whether it may believe that (the table of section 4, and section 3).
// `us` is {root, at, party, collaborationId, knownAnalystKey, acceptedTerms}; keys and digests in hexadecimal.

import { equal, sha256 } from './bytes.js';
import { refuse } from './errors.js';
import { openAnchor } from './seal.js';
import { verify, verifyKept } from './signed.js';

/** The digest of the key that has signed something. */
export const keyOf = ({ author }) => sha256(author.certificate.spki).toString('hex');

/** Believe what the analyst has signed with the key that we know, and under these terms no other. A head is signed for its answer. */
export function byAnalyst(us, kind, bytes, agreedKey = undefined) {
  const verified = (kind === 'LedgerHead' ? verify : verifyKept)(kind, bytes, us.root, us.at);
  if (verified.author.role !== 'analyst') refuse('not-permitted', `${kind} by somebody who is not the analyst`);
  const key = keyOf(verified);
  if (us.knownAnalystKey !== null && key !== us.knownAnalystKey) refuse('certificate-refused', 'signed with another key than the analyst\'s');
  if (agreedKey !== undefined && key !== agreedKey) refuse('certificate-refused', 'signed with another key than that of the terms');
  return verified;
}

/** The terms, which cannot become others once we have signed them. */
export function termsFor(us, bytes) {
  const found = byAnalyst(us, 'Terms', bytes);
  const { message } = found;
  if (message.analyst_key !== undefined && keyOf(found) !== message.analyst_key) refuse('certificate-refused', 'terms with the key of another analyst');
  if (message.collaboration_id !== us.collaborationId) refuse('terms-mismatch', 'terms of another collaboration');
  if (message.consortium_id !== us.root.consortiumId) refuse('terms-mismatch', 'terms of another consortium');
  if (!message.parties.includes(us.party)) refuse('not-permitted', 'terms that do not name us');
  if (us.acceptedTerms !== null && us.acceptedTerms !== found.digest.toString('hex')) refuse('terms-mismatch', 'other terms than we have signed');
  return found;
}

/** The seed that the lead of the terms has sealed for us. */
export function anchorFor(us, agreed, bytes, privateKey) {
  const { message, author } = verifyKept('SealedAnchor', bytes, us.root, us.at);
  if (author.role !== 'lead' || author.name !== agreed.message.lead) refuse('not-permitted', 'an anchor by somebody who is not the lead');
  const seed = openAnchor(message, { collaborationId: us.collaborationId, termsDigest: agreed.digest, party: us.party, privateKey });
  return { seed, commitment: message.commitment };
}

/** The receipt for our uplink, as it was verified. */
export function receiptFor(us, agreed, bytes, uplinkDigest) {
  const found = byAnalyst(us, 'Receipt', bytes, agreed.message.analyst_key);
  const { message } = found;
  if (message.collaboration_id !== us.collaborationId || message.party !== us.party) refuse('not-permitted', 'a receipt for somebody else');
  if (!equal(message.uplink_digest, uplinkDigest)) refuse('not-permitted', 'a receipt for another uplink');
  return found;
}
