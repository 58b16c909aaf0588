// One connection to the analyst (section 11): mutual TLS 1.3, problem documents, trying again.

import { Agent, request as send } from 'node:https';

import { OdcError, refuse } from './errors.js';

export const MESSAGE = 'application/vnd.odc.v1+msgpack';
export const STREAM = 'application/vnd.odc.v1+stream';
const MAX_ANSWER_BYTES = 67108864;
const AGAIN = ['too-many-requests', 'storage-busy'];
const AGAIN_STATUS = [408, 429, 502, 503, 504];
const ATTEMPTS = 6;
/** The slugs of section 12 that this client can meet; it decides by any other's status. */
const SLUGS = new Set(`error protocol-error malformed-message unsupported-version unknown-algorithm limit-exceeded shape-mismatch dtype-mismatch not-finite
  label-out-of-range row-too-long digest-mismatch offset-mismatch truncated trust-error bad-signature certificate-required
  certificate-refused certificate-revoked not-permitted invitation-invalid ledger-broken token-refused seal-broken round-error
  out-of-order terms-not-accepted terms-mismatch consent-missing different-uplink already-exists upload-superseded not-found
  too-many-requests storage-error storage-busy disk-full data-lost older-server round-failed unexpected`.split(/\s+/));

const mediaType = (headers) => (headers['content-type'] ?? '').split(';')[0].trim().toLowerCase();
const parsed = (body) => {
  try {
    const found = JSON.parse(body.toString());
    return found !== null && typeof found === 'object' ? found : {};
  } catch {
    return {};
  }
};

/** The error that an answer is, by its slug, or by its status where the slug is none that we know. */
export function problemOf({ status, headers, body }) {
  const found = mediaType(headers) === 'application/problem+json' ? parsed(body) : {};
  const slug = /^\/problems\/([a-z0-9-]+)$/.exec(String(found.type))?.[1];
  const wait = Number(found.retry_after_s ?? headers['retry-after']);
  return new OdcError(SLUGS.has(slug) ? slug : `http-${status}`, String(found.detail ?? `the answer ${status}`).slice(0, 2000), {
    status, expected: found.expected, retryAfterSeconds: Number.isFinite(wait) && wait >= 0 ? Math.min(wait, LONGEST_WAIT_S) : null,
  });
}

/** Whether an answer says that a later request may be answered otherwise. */
export const mayPass = (error) => AGAIN.includes(error.slug) || (error.slug === `http-${error.status}` && AGAIN_STATUS.includes(error.status));
const mayTryAgain = (error) => !(error instanceof OdcError) || mayPass(error); // or the line broke

const LONGEST_WAIT_S = 3600; // of what a server asks for; setTimeout takes no more than 24 days
const pause = (seconds) => new Promise((resolve) => { setTimeout(resolve, 1000 * seconds); });

export class Connection {
  /** `identity` is `{keyPem, certificatePem}`, or null before there is a certificate. */
  constructor(url, rootPem, identity = null, wait = pause) {
    this.url = new URL(url);
    this.wait = wait;
    this.agent = new Agent({
      keepAlive: true, maxSockets: 1, minVersion: 'TLSv1.3', ca: rootPem, key: identity?.keyPem, cert: identity?.certificatePem,
    });
  }

  close() {
    this.agent.destroy();
  }

  /** Send once. `onData` gets the body of a good answer as it comes; without it the body is returned. */
  once(method, path, { body = null, headers = {}, onData = null } = {}) {
    const length = body === null && method !== 'PUT' && method !== 'POST' ? {} : { 'content-length': body?.length ?? 0 };
    return new Promise((resolve, reject) => {
      const sent = send(new URL(path, this.url), { method, agent: this.agent, headers: { ...length, ...headers } }, (answer) => {
        const parts = [];
        let size = 0;
        const streams = onData !== null && answer.statusCode < 300;
        answer.on('data', (part) => {
          size += part.length;
          try {
            if (streams) onData(part, answer);
            else if (size > MAX_ANSWER_BYTES) refuse('limit-exceeded', 'an answer that is too long');
            else parts.push(part);
          } catch (error) {
            answer.destroy(error);
          }
        });
        answer.on('error', reject);
        answer.on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(parts) }));
      });
      sent.on('error', reject);
      sent.setTimeout(120000, () => sent.destroy(new Error('no answer')));
      if (body !== null) sent.write(body);
      sent.end();
    });
  }

  /** Send, and again where the analyst asks for that or the line breaks. Returns an answer below 400. */
  async ask(method, path, options = {}) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const answer = await this.once(method, path, options);
        if (answer.status >= 400) throw problemOf(answer);
        return answer;
      } catch (error) {
        if (attempt === (options.attempts ?? ATTEMPTS) || !mayTryAgain(error)) throw error;
        await this.wait((error.retryAfterSeconds ?? 2 ** attempt / 10) * (1 + Math.random() / 2));
      }
    }
  }

  async json(method, path, options) {
    const answer = await this.ask(method, path, options);
    if (mediaType(answer.headers) !== 'application/json') refuse('malformed-message', 'an answer that is no JSON');
    return parsed(answer.body);
  }

  /** An answer that is a message or a list of them. */
  async message(method, path, options) {
    const answer = await this.ask(method, path, options);
    if (mediaType(answer.headers) !== MESSAGE) refuse('malformed-message', 'an answer of another type');
    return answer.body;
  }

  /** Stop unless the analyst speaks version 1. */
  async discover() {
    const found = await this.json('GET', '/.well-known/odc');
    if (!Array.isArray(found.wire_versions) || !found.wire_versions.includes(1)) {
      const newer = Array.isArray(found.wire_versions) && Math.max(...found.wire_versions) > 1;
      refuse('unsupported-version', `no common version: ${newer ? 'this client' : 'the analyst'} has to be upgraded`);
    }
  }
}
