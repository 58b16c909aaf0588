// The downlink (sections 9 and 11): fetched in as many parts as it takes, used when every digest holds.

import { StreamReader, fromBytes } from './arrays.js';
import { equal } from './bytes.js';
import { OdcError, refuse } from './errors.js';
import { mayPass } from './http.js';
import { matrix, multiply, transpose } from './matrix.js';

const MAX_MANIFEST_BYTES = 4194304;
const TRIES = 20;
const ORTHOGONAL_METHODS = ['odc', 'isotropic', 'procrustes', 'gopp'];
const ORTHOGONAL_WITHIN = 2e-2;

/** Reads `length || manifest || array stream` as it comes; the manifest is verified before anything behind it. */
export class DownlinkReader {
  constructor(verify) {
    this.verify = verify;
    this.pending = Buffer.alloc(0);
    this.manifest = null;
    this.stream = null;
  }

  feed(bytes) {
    if (this.stream === null) {
      this.pending = Buffer.concat([this.pending, bytes]);
      if (this.pending.length < 4) return;
      const size = this.pending.readUInt32LE();
      if (size > MAX_MANIFEST_BYTES) refuse('limit-exceeded', 'a manifest that is too long');
      if (this.pending.length < 4 + size) return;
      this.manifest = this.verify(this.pending.subarray(4, 4 + size));
      this.stream = new StreamReader(this.manifest.message.arrays, this.manifest.message.chunk_bytes);
      this.feed(this.pending.subarray(4 + size));
      return;
    }
    for (const chunk of this.stream.feed(bytes)) void chunk; // they are kept by the reader
  }

  finish() {
    if (this.stream === null) refuse('truncated', 'the downlink ends in its manifest');
    return { manifest: this.manifest, arrays: this.stream.finish() };
  }
}

/** Require that a manifest is ours, and has what these terms say. */
export function checkDownlinkManifest(manifest, { collaborationId, termsDigest, party, uplinkDigest, terms, latent = terms.latent_dim }) {
  const own = manifest.collaboration_id === collaborationId && equal(manifest.terms_digest, termsDigest)
    && manifest.party === party && equal(manifest.uplink_digest, uplinkDigest);
  if (!own) refuse('not-permitted', 'a downlink for somebody else, or for another uplink');
  const names = manifest.arrays.map(({ name }) => name).join(' ');
  if (names !== (terms.downlink === 'anchor-predictions' ? 'anchor_predictions' : 'change_of_basis model')) refuse('malformed-message', 'other arrays than the terms say');
  if ((manifest.models === undefined) !== (terms.model_groups === undefined)) refuse('malformed-message', 'models of groups that the terms do not have');
  if (terms.model_groups !== undefined && manifest.models.length > Math.ceil(terms.parties.length / terms.model_groups.least_parties)) refuse('limit-exceeded', 'more models than there can be groups');
  const [{ shape }] = manifest.arrays;
  const expected = names === 'anchor_predictions' ? [terms.anchor.rows, terms.table_schema.label_column.classes.length] : [latent, terms.latent_dim];
  if (shape.join() !== expected.join()) refuse('shape-mismatch', `an array of ${shape} instead of ${expected}`);
}

/** G_i, finite, and orthogonal where the method of the terms has no other. */
export function changeOfBasis({ arrays: [spec] }, bytes, method) {
  const numbers = fromBytes(bytes, spec.dtype);
  if (!numbers.every(Number.isFinite)) refuse('not-finite', 'a change of basis with a number that is none');
  const change = matrix(spec.shape[0], spec.shape[1], Float64Array.from(numbers));
  if (ORTHOGONAL_METHODS.includes(method)) {
    const gram = multiply(transpose(change), change).data;
    const isOff = (each, index) => Math.abs(each - Number(index % (change.columns + 1) === 0)) > ORTHOGONAL_WITHIN;
    if (gram.some(isOff)) refuse('malformed-message', 'a change of basis that is not orthogonal');
  }
  return change;
}

/** Fetch a long answer in as many parts as it takes. `restart` is called before the first byte comes again. */
export async function fetchParts(connection, path, restart, feed) {
  let at = 0;
  let etag = null;
  const onData = (part, { statusCode, headers }) => {
    if (part.first) {
      if (statusCode === 206) {
        const [, from] = /^bytes (\d+)-/.exec(headers['content-range'] ?? '') ?? [];
        if (Number(from) !== at) refuse('malformed-message', 'another part than was asked for');
        if (at > 0 && headers.etag !== etag) refuse('malformed-message', 'a part of another version');
      } else {
        restart();
        at = 0;
      }
      etag = headers.etag ?? null;
    }
    feed(part.bytes);
    at += part.bytes.length;
  };
  for (let left = TRIES; ; left -= 1) {
    let first = true;
    try {
      await connection.ask('GET', path, {
        attempts: 1,
        headers: { range: `bytes=${at}-`, ...(at === 0 || etag === null ? {} : { 'if-range': etag }) },
        onData(bytes, answer) {
          onData({ bytes, first }, answer);
          first = false;
        },
      });
      return etag;
    } catch (error) {
      const broke = !(error instanceof OdcError) || mayPass(error);
      if (!broke || left === 0) throw error;
      await connection.wait((error.retryAfterSeconds ?? 0.1) * (1 + Math.random() / 2));
    }
  }
}

/** Fetch our downlink, with `verify` for the signed manifest. Returns what was read and the ETag to acknowledge. */
export async function fetchDownlink(connection, collaborationId, verify) {
  let reader;
  const etag = await fetchParts(
    connection,
    `/v1/collaborations/${collaborationId}/downlink`,
    () => { reader = new DownlinkReader(verify); },
    (bytes) => {
      reader ??= new DownlinkReader(verify);
      reader.feed(bytes);
    },
  );
  if (reader === undefined) refuse('truncated', 'an empty downlink');
  return { ...reader.finish(), etag };
}

/** Say that the downlink is verified and on the disk. */
export async function acknowledge(connection, collaborationId, etag) {
  await connection.ask('GET', `/v1/collaborations/${collaborationId}/downlink`, { headers: { 'if-none-match': etag } });
}
