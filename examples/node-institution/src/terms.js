// Terms (section 6): what the analyst publishes and every institution signs.

import { ROWS, schema, schemaWidth } from './columns.js';
import {
  boolean, float, hexDigits, id, integer, list, name, nullable, one, optional, party, record, tagged, text,
} from './layout.js';

const seed32 = integer(0, 2 ** 32 - 1);
const seed63 = integer(0, (1n << 63n) - 1n);
const penalty = float({ above: 0, high: 1e12 });
const rate = float({ above: 0, high: 1 });
const epochs = integer(1, 100000);
const units = integer(1, 65536);
const gamma = nullable(float({ above: 0, high: 1e6 }));
const weighted = { class_weight: optional(one('balanced')) };

const MODELS = {
  mlp: record({ kind: one('mlp'), hidden_units: units, learning_rate: rate, epochs, seed: seed32, ...weighted }),
  logistic: record({ kind: one('logistic'), inverse_penalty: penalty, epochs, ...weighted }),
  ridge: record({ kind: one('ridge'), inverse_penalty: penalty }),
  cox: record({ kind: one('cox'), inverse_penalty: penalty }),
  averaged: record({
    kind: one('averaged'), inverse_penalty: penalty, hidden_units: units, learning_rate: rate, epochs,
    weight_penalty: float({ low: 0, high: 1e6 }), seed: seed32, ...weighted,
  }),
  'random-forest': record({
    kind: one('random-forest'), trees: integer(1, 10000), rows_per_leaf: integer(2, 2147483647), seed: seed32, ...weighted,
  }),
  'gradient-boosting': record({
    kind: one('gradient-boosting'), trees: integer(1, 10000), learning_rate: rate,
    rows_per_leaf: integer(2, 2147483647), leaves: integer(2, 65536), seed: seed32, ...weighted,
  }),
  knn: record({ kind: one('knn'), neighbours: integer(1, 10000) }),
  'quadratic-discriminant': record({ kind: one('quadratic-discriminant'), pooled_share: float({ low: 0, high: 1 }) }),
  svm: record({ kind: one('svm'), inverse_penalty: penalty, gamma, seed: seed32, ...weighted }),
  'random-feature-svm': record({
    kind: one('random-feature-svm'), random_features: integer(1, 16384), inverse_penalty: penalty, gamma, epochs,
    seed: seed32, ...weighted,
  }),
};
const budget = integer(1, 86400);
const model = tagged('kind', {
  ...MODELS,
  auto: record({
    kind: one('auto'), candidates: list(tagged('kind', MODELS), 2, 8, { distinct: true }), budget_s: budget, seed: seed32,
  }),
});

const ORTHOGONAL = ['odc', 'isotropic', 'procrustes', 'gopp', 'rdp'];
const OVER_ALL_MATRICES = ['imakura', 'kawakami'];
const methods = one(...ORTHOGONAL, ...OVER_ALL_MATRICES);
const target = one('identity', 'haar', 'invertible');
const named = record({ method: methods, target, seed: seed63 });
const alignment = tagged('method', {
  ...Object.fromEntries([...ORTHOGONAL, ...OVER_ALL_MATRICES].map((each) => [each, named])),
  auto: record({
    method: one('auto'), candidates: list(methods, 2, 8, { distinct: true }), target, budget_s: budget, seed: seed63,
  }),
});

const anchor = record({ kind: one('haar', 'gaussian', 'uniform', 'public'), rows: ROWS });
const modelPrivacy = record({
  epsilon: float({ low: 0.1, high: 100 }), delta: float({ low: 1e-9, high: 0.01 }), steps: integer(1, 10000),
  batch_rows: ROWS, learning_rate: float({ above: 0, high: 1000 }),
});
const exposure = record({
  max_exact_rows: nullable(float({ low: 0, high: 1 })), max_found_columns: nullable(integer(0, 65536)),
  min_hidden_bits: nullable(float({ low: 0, high: 1e9 })),
});
const sums = record({
  random_features: integer(0, 4096), kernel_width: nullable(float({ above: 0, high: 1e6 })),
  penalty: nullable(float({ above: 0, high: 1e6 })), max_rows: ROWS, min_rows: integer(2, 2147483647),
  cohort: optional({ read: (raw, where) => boolean.read(raw, where) || boolean.read(null, where), write: boolean.write }),
  noise: optional(record({
    epsilon: float({ low: 0.1, high: 20 }), delta: float({ low: 1e-9, high: 0.01 }),
    clip: float({ above: 0, high: 1e6 }), colluding: integer(0, 255),
  })),
}, (value, fail) => {
  if ((value.random_features > 0) !== (value.kernel_width !== null)) fail('random features and a kernel width go together');
  if (value.min_rows > value.max_rows) fail('more rows at least than at most');
});

const modelGroups = record({ largest_distance: float({ low: 0.01, below: 1 }), least_parties: integer(2, 1024) });
const absentColumns = record({ party, columns: list(name, 1, 65536, { distinct: true }) });
const joinedRows = record({
  row_key: name, parties: list(party, 2, 16384, { distinct: true }), latent_dims: list(integer(1, 16384), 2, 16384), labels: party,
});

export const terms = record({
  terms_schema: integer(1, 2),
  consortium_id: id,
  collaboration_id: id,
  title: name,
  purpose: text,
  parties: list(party, 1, 16384, { distinct: true }),
  lead: party,
  table_schema: schema,
  latent_dim: integer(1, 16384),
  rep_dtype: one('f2', 'f4', 'f8', 'i1'),
  anchor,
  alignment,
  model,
  downlink: one('change-of-basis-and-model', 'anchor-predictions'),
  dither: optional(float({ low: 0, high: 100 })),
  least_signal: optional(nullable(float({ above: 0, below: 1 }))),
  hold_out: optional(float({ low: 0, high: 0.5 })),
  returns_scores: optional(boolean),
  model_privacy: optional(nullable(modelPrivacy)),
  exposure: optional(nullable(exposure)),
  late_consumers: optional(list(party, 1, 16384, { distinct: true })),
  sums: optional(sums),
  retention_days: optional(integer(1, 36500)),
  analyst_key: optional(hexDigits(64)),
  replaces: optional(id),
  sealing_suite: optional(one('mlkem1024-p384', 'p256')),
  absent_columns: optional(list(absentColumns, 1, 16384)),
  model_groups: optional(modelGroups),
  least_latent_dim: optional(integer(1, 16384)),
  own_maps: optional(list(one('kernel-pca', 'onnx', 'random-features'), 1, 3, { distinct: true })),
  joined_rows: optional(list(joinedRows, 1, 8192)),
}, (value, fail) => [partiesRule, schemaRule, anchorRule, alignmentRule, labelRule, privacyRule, sumsRule, absentRule, groupsRule, leastRule, mapsRule, joinedRule].forEach((rule) => rule(value, fail)));

const candidates = (of) => of.candidates ?? [of];
export const kindsOf = (found) => [...new Set(candidates(found.model).map((each) => each.kind))];
const ROW_REVEALING = ['svm', 'knn'];

/** The kinds of a model that carries training rows and comes back; signing these terms needs a consent of its own. */
export const rowRevealing = (found) =>
  found.downlink === 'anchor-predictions' ? [] : kindsOf(found).filter((kind) => ROW_REVEALING.includes(kind));

function partiesRule({ parties, lead, late_consumers: late = [] }, fail) {
  if (!parties.includes(lead)) fail('the lead is no party');
  if (late.some((each) => !parties.includes(each) || each === lead)) fail('a late consumer that cannot be one');
}

const OF_SCHEMA_2 = ['dither', 'least_signal', 'hold_out', 'returns_scores', 'model_privacy', 'exposure'];
const LEFT_OUT = ['late_consumers', 'sums', 'retention_days', 'analyst_key', 'replaces', 'sealing_suite', 'absent_columns', 'model_groups', 'least_latent_dim', 'own_maps', 'joined_rows'];
const MODELS_OF_SCHEMA_1 = ['mlp', 'logistic', 'svm', 'random-feature-svm'];

function schemaRule(value, fail) {
  if (value.replaces === value.collaboration_id) fail('terms that replace themselves');
  if (value.terms_schema === 2) {
    if (OF_SCHEMA_2.some((each) => value[each] === undefined)) fail('a field of schema 2 is missing');
    return;
  }
  if ([...OF_SCHEMA_2, ...LEFT_OUT].some((each) => value[each] !== undefined)) fail('a field of schema 2');
  if (!value.table_schema.columns.every((each) => ['numeric', 'categorical'].includes(each.kind))) fail('a column of schema 2');
  if (value.table_schema.label_column.kind !== undefined) fail('a label of schema 2');
  if (!MODELS_OF_SCHEMA_1.includes(value.model.kind) || value.model.class_weight) fail('a model of schema 2');
  if (value.alignment.method === 'auto') fail('an alignment of schema 2');
}

function anchorRule({ anchor: { kind, rows }, table_schema: found, latent_dim: latent, downlink, sums: summed }, fail) {
  const m = schemaWidth(found);
  if (latent > m && summed === undefined) fail('more latent dimensions than features');
  if (rows < m || (kind === 'haar' && rows !== m)) fail('an anchor of the wrong number of rows');
  if (kind === 'public' && 4 * rows * m > 268435456) fail('a public anchor of more than 256 MiB');
  if (downlink !== 'anchor-predictions') return;
  if (kind !== 'gaussian' && kind !== 'public') fail('anchor predictions for this anchor');
  if (rows < 2 * m) fail('anchor predictions for so few rows');
  if (4 * rows * (found.label_column.classes ?? []).length > 2147483647) fail('too many anchor predictions');
}

/** The schema of a party that lacks some columns: the others, in their order. */
export const schemaOf = (terms, of) => {
  const absent = terms.absent_columns?.find((each) => each.party === of)?.columns ?? [];
  return { ...terms.table_schema, columns: terms.table_schema.columns.filter((each) => !absent.includes(each.name)) };
};

function absentRule(value, fail) {
  const { absent_columns: absent, parties, late_consumers: late = [], table_schema: { columns } } = value;
  if (absent === undefined) return;
  if (value.sums !== undefined || value.downlink === 'anchor-predictions') fail('absent columns of what needs every column');
  if (new Set(absent.map((each) => each.party)).size !== absent.length) fail('a party that lacks columns twice');
  const names = columns.map((each) => each.name);
  for (const each of absent) {
    if (!parties.includes(each.party)) fail('absent columns of no party');
    if (!each.columns.every((name) => names.includes(name))) fail('absent columns that are none of the table');
    if (groupOf(value, each.party) !== undefined) continue;
    if ((value.least_latent_dim ?? value.latent_dim) > schemaWidth(schemaOf(value, each.party))) fail('more latent dimensions than a party has features');
  }
  const held = parties.filter((each) => !late.includes(each)).flatMap((each) => schemaOf(value, each).columns.map((one) => one.name));
  if (!names.every((name) => held.includes(name))) fail('a column that no sender has');
}

function leastRule({ least_latent_dim: least, latent_dim: most, sums: summed, alignment: { method, candidates: tried } }, fail) {
  if (least === undefined) return;
  if (summed !== undefined) fail('fewer numbers of a row, and no row is projected');
  if (least > most) fail('at least more numbers of a row than at most');
  if (!(tried ?? [method]).every((each) => OVER_ALL_MATRICES.includes(each))) fail('an alignment that needs as many numbers from everybody');
}

function mapsRule({ own_maps: kinds, anchor: { kind, rows }, latent_dim: latent, downlink, sums: summed, alignment: { method, candidates: tried } }, fail) {
  if (kinds === undefined) return;
  if (kinds.some((each, index) => index > 0 && each < kinds[index - 1])) fail('maps in another order');
  if (summed !== undefined || downlink === 'anchor-predictions') fail('maps of rows that are not projected, or forgotten');
  if (!(tried ?? [method]).every((each) => OVER_ALL_MATRICES.includes(each))) fail('an alignment that needs linear maps');
  if (kind === 'haar') fail('maps and an anchor that is square');
  if (rows < 10 * latent) fail('maps and too few rows of the anchor');
}

/** The group that the rows of a party are joined in, if they are. */
export const groupOf = (terms, of) => terms.joined_rows?.find((each) => each.parties.includes(of));

function joinedRule(value, fail) {
  const { joined_rows: groups, parties, late_consumers: late = [], latent_dim: latent, table_schema: found } = value;
  if (groups === undefined) return;
  if (value.sums !== undefined || value.downlink === 'anchor-predictions') fail('joined rows of what needs every column');
  if (value.own_maps !== undefined || value.least_latent_dim !== undefined) fail('joined rows of unlike numbers');
  if (value.model_groups !== undefined) fail('joined rows and models of groups');
  if (value.hold_out > 0) fail('joined rows that are kept back');
  const grouped = groups.flatMap((each) => each.parties);
  if (new Set(grouped).size !== grouped.length) fail('a party in two groups of joined rows');
  const { label_column: label } = found;
  const labels = [label.name, label.event, ...(label.labels ?? []).map((each) => each.name)];
  for (const { row_key: key, parties: members, latent_dims: dims, labels: of } of groups) {
    if (!members.every((each) => parties.includes(each) && !late.includes(each))) fail('rows joined with those of nobody who sends any');
    if (!members.includes(of)) fail('labels of a party that is none of the group');
    if (found.columns.some((each) => each.name === key) || labels.includes(key)) fail('a row key that is a column');
    const held = members.flatMap((each) => schemaOf(value, each).columns.map((one) => one.name));
    if (held.length !== found.columns.length || new Set(held).size !== held.length) fail('a column that is not at one party of a group');
    if (dims.length !== members.length || dims.reduce((all, each) => all + each, 0) !== latent) fail('numbers of a row that do not add up');
    if (dims.some((each, index) => each > schemaWidth(schemaOf(value, members[index])))) fail('more numbers of a row than a party has features');
  }
}

/** How many numbers of a row a party may send, [least, most]. */
export function latentDimsOf(terms, party) {
  const group = groupOf(terms, party);
  if (group !== undefined) return Array(2).fill(group.latent_dims[group.parties.indexOf(party)]);
  if (terms.least_latent_dim === undefined) return [terms.latent_dim, terms.latent_dim];
  return [terms.least_latent_dim, Math.min(terms.latent_dim, schemaWidth(schemaOf(terms, party)))];
}

function groupsRule(value, fail) {
  if (value.model_groups === undefined) return;
  if (value.table_schema.label_column.kind !== undefined) fail('groups without classes');
  if (value.sums !== undefined || value.downlink === 'anchor-predictions' || value.model_privacy || value.late_consumers) fail('groups of what has one model');
  if (value.model_groups.least_parties > value.parties.length) fail('groups of more institutions than there are');
  if (value.parties.length > 1024) fail('groups of so many institutions');
}

/** Which of the m encoded features a party has; its basis is zero on the others. */
export function featuresOf(terms, of) {
  const held = new Set(schemaOf(terms, of).columns.map((each) => each.name));
  let start = 0;
  return terms.table_schema.columns.flatMap((column) => {
    const width = schemaWidth({ columns: [column] });
    start += width;
    return held.has(column.name) ? Array.from({ length: width }, (_, index) => start - width + index) : [];
  });
}

function alignmentRule({ alignment: found, model_privacy: privacy }, fail) {
  const tried = found.candidates ?? [found.method];
  if (found.target === 'invertible' && !tried.every((each) => OVER_ALL_MATRICES.includes(each))) fail('an invertible target');
  if (found.method === 'auto' && privacy) fail('a choice of the alignment for a private model');
}

const FOR_NUMBERS = ['ridge', 'averaged', 'mlp', 'random-forest', 'gradient-boosting', 'knn'];
const NOT_FOR_SEVERAL = ['ridge', 'cox', 'knn'];

function labelRule({ table_schema: { label_column: { kind } }, model: found, downlink, model_privacy: privacy, sums: summed }, fail) {
  if (summed !== undefined) return;
  for (const { kind: of, class_weight: weight } of candidates(found)) {
    if (of === 'quadratic-discriminant') fail('a quadratic discriminant of rows');
    if (kind === 'number' && !FOR_NUMBERS.includes(of)) fail('a model that predicts no number');
    if (kind === 'survival' && of !== 'cox') fail('a model that predicts no survival');
    if (kind === 'multilabel' && NOT_FOR_SEVERAL.includes(of)) fail('a model that predicts one label');
    if (kind === undefined && ['ridge', 'cox'].includes(of)) fail('a model that predicts no class');
    if (kind !== undefined && weight !== undefined) fail('class weights without classes');
  }
  if (kind !== undefined && (downlink === 'anchor-predictions' || privacy)) fail('only for classes');
}

function privacyRule({ model: found, model_privacy: privacy }, fail) {
  if (!privacy) return;
  if (found.class_weight !== undefined) fail('class weights of a private model');
  const agreed = found.kind === 'mlp' ? found.learning_rate === 0.002 && found.epochs === 200
    : found.kind === 'logistic' && found.inverse_penalty === 1 && found.epochs === 1000;
  if (!agreed) fail('a model that is not trained privately');
}

function sumsRule(value, fail) {
  const { sums: summed, table_schema: { label_column: found }, model: of, alignment: by } = value;
  if (summed === undefined) return;
  if (value.sealing_suite !== undefined) fail('a sealing suite for sums');
  const byClass = of.kind === 'quadratic-discriminant';
  const classes = found.classes !== undefined;
  if (value.parties.length < 3 || value.parties.length > 256) fail('sums of so many institutions');
  if (!classes && found.kind !== 'number') fail('sums of survival or several labels');
  if (byClass ? !classes || summed.cohort || summed.noise : of.kind !== 'ridge' || of.inverse_penalty !== 1) fail('sums with this model');
  if (summed.noise && (summed.cohort || summed.noise.colluding >= value.parties.length)) fail('noise that does not go with these sums');
  if (value.anchor.kind !== 'haar') fail('sums with this anchor');
  if (value.latent_dim !== schemaWidth(value.table_schema) + summed.random_features) fail('sums of another number of features');
  const others = value.rep_dtype === 'f4' && value.downlink === 'change-of-basis-and-model' && value.dither === 0
    && value.least_signal === null && value.model_privacy === null && value.exposure === null && value.late_consumers === undefined
    && by.method === 'isotropic' && by.target === 'identity' && BigInt(by.seed) === 0n;
  if (!others) fail('sums with what is about rows');
}
