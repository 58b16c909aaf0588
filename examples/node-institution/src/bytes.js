// Byte strings, digests and key derivation: sections 1, 5 and 7.

import { createHash, createHmac, hkdfSync } from 'node:crypto';

export const ZERO = Buffer.from([0]);

/** Join byte strings; text is UTF-8. */
export const join = (...parts) => Buffer.concat(parts.map((part) => Buffer.from(part)));

export const sha256 = (...parts) => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** SHA-256 of a label, a zero byte and more. */
export const labelled = (label, ...parts) => sha256(label, ZERO, ...parts);

export const equal = (a, b) => Buffer.compare(a, b) === 0;

export const derive = (secret, info, length = 32, salt = Buffer.alloc(0)) =>
  Buffer.from(hkdfSync('sha256', secret, salt, info, length));

/** What an Enrolment proves the join secret with. */
export function joinMac(secret, ticket, csr, chain = []) {
  const mac = createHmac('sha256', derive(secret, 'odc/v1/join-mac'));
  for (const part of [ticket, csr, ...chain]) mac.update(sha256(part));
  return mac.digest();
}

export const apiTokenDigest = (token) => labelled('odc/v1/api-token', token);
