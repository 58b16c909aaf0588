// The invitation file and the request for a certificate (section 5).

import { refuse, orRefuse } from './errors.js';
import { joinMac } from './bytes.js';
import { TrustRoot, certificateRequest, pemToDer } from './certificates.js';
import { encode, isId, isName, isParty } from './layout.js';
import { enrolment } from './messages.js';

const MEMBERS = [
  'odc_invitation', 'consortium', 'consortium_id', 'invitation_id', 'role', 'party', 'analyst_url', 'join_secret', 'expires_at',
  'root_fingerprint', 'root_certificate', 'ticket',
];
const invalid = (detail) => refuse('invitation-invalid', detail);

const TESTS = {
  odc_invitation: (value) => value === 1,
  consortium: isName,
  consortium_id: isId,
  invitation_id: isId,
  role: (value) => ['lead', 'institution', 'analyst'].includes(value),
  party: isParty,
  analyst_url: (value) => typeof value === 'string' && /^https:\/\/[^/?#@\s]+$/.test(value) && URL.canParse?.(value) !== false,
  join_secret: (value) => typeof value === 'string' && /^[0-9a-f]{64}$/.test(value),
  expires_at: (value) => Number.isInteger(value) && value >= 0 && value <= 253402300799,
  root_fingerprint: (value) => typeof value === 'string',
  root_certificate: (value) => typeof value === 'string',
  ticket: (value) => typeof value === 'string' && value !== '' && Buffer.from(value, 'base64').toString('base64') === value,
  certificate_name: isName,
};

/** Read an invitation; the root in it is trusted from here on, once a person has compared the fingerprint. */
export function readInvitation(text) {
  if (Buffer.byteLength(text) > 4194304) invalid('an invitation that is too long');
  const found = orRefuse('invitation-invalid', 'not JSON', () => JSON.parse(text));
  const names = found !== null && typeof found === 'object' ? Object.keys(found) : [];
  const unknown = names.filter((name) => !MEMBERS.includes(name) && name !== 'certificate_name');
  if (unknown.length || MEMBERS.some((name) => !names.includes(name))) invalid('other members than an invitation has');
  for (const name of names) if (!TESTS[name](found[name])) invalid(`${name} is not what it has to be`);
  const root = orRefuse('invitation-invalid', 'no root', () => new TrustRoot(pemToDer(found.root_certificate)));
  if (found.root_fingerprint.replaceAll(' ', '') !== root.fingerprint) invalid('the fingerprint of another root');
  if (root.consortiumId !== found.consortium_id) invalid('the root of another consortium');
  return { ...found, root };
}

/** The Enrolment that asks for a certificate for this key. */
export function requestCertificate(invitation, privateKey) {
  const ticket = Buffer.from(invitation.ticket, 'base64');
  const csr = certificateRequest(privateKey, invitation.party);
  return encode(enrolment, { ticket, csr, chain: [], mac: joinMac(Buffer.from(invitation.join_secret, 'hex'), ticket, csr) });
}
