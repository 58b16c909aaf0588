// Layouts of everything else that is signed or sent (sections 2 to 10).

import {
  anyBytes, blob, boolean, bytes, count, digest, float, id, integer, list, matching, name, nullable, one, openRecord, optional,
  party, plainText, record, time,
} from './layout.js';

const ROWS = 2147483647;
const MAX_ARRAY_BYTES = 1099511627776;
export const DTYPE_BYTES = { f2: 2, f4: 4, f8: 8, u1: 1, u2: 2, u8: 8, i1: 1, i4: 4, i8: 8 };
export const entries = ({ shape }) => shape.reduce((product, each) => product * each, 1);
export const arrayBytes = (spec) => entries(spec) * DTYPE_BYTES[spec.dtype];

export const ALGORITHM = 'ecdsa-p256-sha256'; // left out where it is this one
export const signed = record({
  kind: plainText(100), payload: anyBytes, certificate: blob, signature: blob,
  algorithm: optional(matching(/^[a-z0-9][a-z0-9._@-]{0,99}$/)),
}, ({ algorithm }, fail) => {
  if (algorithm === ALGORITHM) fail('an algorithm that is left out');
});

const chain = list(bytes(1, 16384), 0, 4);
const role = one('lead', 'institution', 'analyst');
const suite = one('mlkem768-x25519', 'x25519', 'mlkem1024-p384', 'p256');
const seenHead = record({ length: integer(1, 9007199254740991), digest });

export const invitationTicket = openRecord({ consortium_id: id, invitation_id: id, role, party, expires_at: time });
export const enrolment = record({ ticket: blob, csr: blob, chain, mac: digest });
export const renewal = openRecord({ consortium_id: id, renewal_id: id, csr: blob, chain });

export const acceptance = openRecord({
  collaboration_id: id, terms_digest: digest, shown_digest: digest, party, sealing_suite: suite, sealing_key: blob,
  accept_row_revealing_model: boolean, mask_key: optional(digest), seen: optional(seenHead),
});

export const sealedAnchor = openRecord({
  collaboration_id: id, terms_digest: digest, recipient: party, form: one('seed', 'matrix'), commitment: digest,
  sealing_suite: suite, ciphertext: blob, mask_keys: optional(list(digest, 1, 256)),
});

const axis = integer(0, ROWS);
export const arraySpec = record(
  { name, dtype: one(...Object.keys(DTYPE_BYTES)), shape: list(axis, 1, 2), digest },
  (spec, fail) => {
    if (arrayBytes(spec) > MAX_ARRAY_BYTES) fail('an array over 1 TiB');
  },
);

const chunkBytes = {
  ...integer(65536, 4194304),
  read(raw, where) {
    const value = integer(65536, 4194304).read(raw, where);
    return integer(0, 0).read(value % 65536, where) + value;
  },
};

const positive = nullable(float({ above: 0 }));
export const privacyRecord = record({
  epsilon: positive, delta: nullable(float({ above: 0, below: 1 })), clip: positive,
  perturb_basis: nullable(float({ above: 0, below: 1 })), drop_below: nullable(float({ above: 0, high: 1 })),
  permute_rows: boolean, dither: optional(float({ above: 0, high: 100 })),
}, ({ epsilon, delta, clip }, fail) => {
  const given = [epsilon, delta, clip].filter((each) => each !== null).length;
  if (given !== 0 && given !== 3) fail('noise by halves');
  if (clip !== null && !Number.isFinite(2 * clip)) fail('a clip without end');
});

const named = (arrays) => arrays.map((each) => each.name).join(' ');

export const uplinkManifest = openRecord({
  collaboration_id: id, terms_digest: digest, party, anchor_commitment: digest, chunk_bytes: chunkBytes,
  arrays: list(arraySpec, 1, 6), privacy: privacyRecord, seen: optional(seenHead),
}, ({ arrays, privacy }, fail) => {
  const names = named(arrays);
  const keys = arrays.length > 1 && arrays.at(-1).name === 'row_keys' ? arrays.at(-1) : undefined;
  const [rep, anchorRep, labels, ...scales] = keys === undefined ? arrays : arrays.slice(0, -1);
  if (names === 'sums') {
    if (rep.dtype !== 'u8' || rep.shape.length !== 1 || rep.shape[0] < 1) fail('sums that are none');
    if (privacy.epsilon !== null || privacy.perturb_basis !== null || privacy.drop_below !== null || privacy.permute_rows
      || privacy.dither !== undefined) fail('sums of changed rows');
    return;
  }
  const scaled = rep.dtype === 'i1';
  const usual = scaled ? 'rep anchor_rep labels rep_scale anchor_rep_scale' : 'rep anchor_rep labels';
  if (names !== (keys === undefined ? usual : `${usual} row_keys`)) fail('other arrays');
  if (rep.shape.length !== 2 || anchorRep.shape.length !== 2 || labels.shape.length !== 1) fail('arrays of other axes');
  if (rep.shape[0] !== labels.shape[0] && !(keys !== undefined && labels.shape[0] === 0)) fail('labels for other rows');
  if (keys !== undefined && (keys.dtype !== 'u1' || keys.shape.join() !== `${rep.shape[0]},16`)) fail('row keys of another shape or type');
  scales.forEach((scale, index) => {
    const columns = arrays[index].shape[1];
    if (scale.dtype !== 'f4' || scale.shape.length !== 1 || scale.shape[0] !== columns) fail('scales of another shape or type');
  });
});

export const receipt = openRecord({
  collaboration_id: id, party, uplink_digest: digest, payload_bytes: count, received_at: time, ledger_index: count,
  ledger_digest: digest,
});

export const downlinkManifest = openRecord({
  collaboration_id: id, terms_digest: digest, party, uplink_digest: digest, chunk_bytes: chunkBytes,
  arrays: list(arraySpec, 1, 2), model_parameters: count, models: optional(list(digest, 1, 1024)),
}, ({ arrays, models }, fail) => {
  const sets = ['change_of_basis model', 'anchor_predictions', 'model', 'model total'];
  if (!sets.includes(named(arrays))) fail('other arrays');
  const shapes = {
    change_of_basis: [['f2', 'f4', 'f8'], 2], model: [['u1'], 1], total: [['u8'], 1], anchor_predictions: [['f4'], 2],
  };
  for (const { name: of, dtype, shape } of arrays) {
    const [dtypes, axes] = shapes[of];
    if (!dtypes.includes(dtype) || shape.length !== axes) fail(`${of} of another shape or type`);
  }
  if (models === undefined) return;
  if (models.some((each, index) => index > 0 && Buffer.compare(models[index - 1], each) >= 0)) fail('models out of order');
  const model = arrays.find((each) => each.name === 'model');
  if (model === undefined || !models.some((each) => Buffer.compare(each, model.digest) === 0)) fail('models without this one');
});

const erasedFile = record({ name, size_bytes: count, erased_at: time });
export const forgettingStatement = record({
  collaboration_id: id, terms_digest: digest, party, uplink_digest: nullable(digest), erased: list(erasedFile, 1, 1000),
});

const ascending = (names, fail) => {
  const ordered = names.every((each, index) => index === 0 || Buffer.compare(Buffer.from(names[index - 1]), Buffer.from(each)) < 0);
  if (!ordered) fail('names in another order');
};
export const evidenceIndex = record({
  consortium_id: id, collaboration_id: id, terms_digest: digest, party, made_at: time,
  files: list(record({ name, size_bytes: count, digest }), 1, 100), absent: list(name, 0, 100),
}, ({ files, absent }, fail) => {
  ascending(files.map((each) => each.name), fail);
  ascending(absent, fail);
  if (files.some((each) => absent.includes(each.name))) fail('a file that is there and absent');
});

const score = float({ high: 1 });
export const memberScore = openRecord({
  collaboration_id: id, terms_digest: digest, party, rows: integer(1, ROWS),
  metric: one('roc_auc', 'accuracy', 'r2', 'c_index'), together: score, alone: nullable(score),
  gain_low: nullable(float()), gain_high: nullable(float()),
}, ({ metric, together, alone, gain_low: low, gain_high: high }, fail) => {
  if (metric !== 'r2' && (together < 0 || (alone ?? 0) < 0)) fail('a score below 0');
  if ((low === null) !== (alone === null) || (high === null) !== (alone === null)) fail('a gain without its ends');
  if (alone !== null && (low > high || (metric !== 'r2' && (low < -1 || high > 1)))) fail('a gain that is none');
});

export const EVENTS = [
  'publish terms', 'accept terms', 'publish anchor', 'begin uplink', 'accept uplink', 'seal', 'begin alignment', 'begin training', 'release',
  'fetch downlink', 'share anchor', 'align consumer', 'refuse consumer', 'exclude party', 'suspect party', 'leave out rows', 'close', 'fail', 'resume', 'cancel',
];
export const STATES = [
  'draft', 'enrolling', 'anchored', 'collecting', 'sealed', 'aligning', 'training', 'released', 'failed', 'closed', 'cancelled',
];
export const ledgerEntry = record({
  index: count, at: time, event: one(...EVENTS), party: nullable(party), state: one(...STATES), subject: nullable(digest),
  previous: digest,
});
export const ledgerHead = openRecord({ collaboration_id: id, length: count, digest, at: time });
export const ledgerPage = openRecord({ entries: list(ledgerEntry, 0, 16384), head: blob });
export const seenLedger = openRecord({ collaboration_id: id, party, seen: seenHead, at: time });
