// Plain words (section 6): what a person is shown before signing, word by word.

import { labelled } from './bytes.js';
import { schemaWidth } from './columns.js';
import { refuse } from './errors.js';
import { kindsOf, rowRevealing, schemaOf, groupOf, latentDimsOf } from './terms.js';

/** The fewest digits that read back the same, never with an exponent. */
export function plainNumber(value) {
  const text = String(Math.abs(value));
  const [, whole, fraction = '', exponent = '0'] = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(text);
  const shift = Number(exponent);
  const digits = whole + fraction;
  const point = whole.length + shift;
  const padded = point <= 0 ? '0'.repeat(1 - point) + digits : digits.padEnd(point, '0');
  const at = Math.max(point, 1);
  const [before, after] = [padded.slice(0, at), padded.slice(at)];
  return (value < 0 ? '-' : '') + before + (after ? `.${after}` : '');
}

const commas = (names) => names.join(', ');
const numbers = (values) => commas(values.map(plainNumber));
const ROUNDED = {
  f2: '16-bit floats (about three digits)', f4: '32-bit floats (about seven digits)', f8: '64-bit floats (about sixteen digits)',
  i1: '8-bit integers (to within 1/254 of the largest value of the same dimension)',
};
const SEALED_BY = {
  'mlkem1024-p384': '(ML-KEM-1024 with ECDH on P-384, and AES-256-GCM), not by the usual one.',
  p256: '(ECDH on P-256, and AES-256-GCM), not by the usual one. Whoever keeps a copy and can one day break P-256, as with a quantum computer, reads the anchor.',
};
const BYTES = { f2: 2, f4: 4, f8: 8, i1: 1 };

/** The text of these terms, each line ending in a line feed. */
export function plainWords(terms) {
  if (terms.sums !== undefined) refuse('input-error', 'this client takes no part in rounds with sums');
  const parts = [opening(terms), sent(terms), returned(terms), warnings(terms), ['Columns:', ...terms.table_schema.columns.map(columnLine)]];
  return parts.map((lines) => lines.map((line) => `${line}\n`).join('')).join('\n');
}

export const plainWordsDigest = (terms) => labelled('odc/v1/plain-words', plainWords(terms));

const nri = (terms) => terms.downlink === 'anchor-predictions';

function opening(terms) {
  const schema2 = terms.terms_schema === 2;
  const label = terms.table_schema.label_column;
  return [
    `Terms in plain words, version ${schema2 ? 3 : 2}`,
    terms.title,
    ...terms.purpose.split('\n'),
    '',
    `Institutions: ${commas(terms.parties)}. Lead institution: ${terms.lead}.`,
    ...(terms.late_consumers ? [lateLine(terms)] : []),
    ...(lackingAlone(terms).length ? [absentLine(terms)] : []),
    ...(terms.joined_rows ?? []).map((group) => joinedLine(terms, group)),
    ...(terms.analyst_key ? [`The analyst is the one with the key ${terms.analyst_key.match(/.{4}/g).join(' ')}, and no other.`] : []),
    ...(terms.replaces ? [`These terms replace those of the collaboration ${terms.replaces}, which has ended with that.`] : []),
    ...(terms.sealing_suite ? [`The anchor's seed is sealed for each institution by the suite ${terms.sealing_suite} ${SEALED_BY[terms.sealing_suite]}`] : []),
    labelLine(label),
  ];
}

const lateLine = (terms) => `Late consumers: ${commas(terms.late_consumers)}. They send no rows and no labels, and the round does not wait for them. `
  + `After its release and before its end, each of them may send the projection of the anchor and gets ${nri(terms) ? 'what the model predicts for the anchor rows' : 'the model and a change-of-basis matrix of its own'}; `
  + 'nobody is asked again. Until the end, the analyst keeps what all institutions have sent. Like every member, a late consumer knows the anchor: '
  + 'together with the analyst it knows the secret basis of every institution.';

const lackingAlone = (terms) => (terms.absent_columns ?? []).filter((each) => groupOf(terms, each.party) === undefined);

const joinedLine = (terms, { row_key: key, parties, latent_dims: dims, labels }) => `Joined rows: ${commas(parties)} hold different columns of the same rows, which the column ${key} names: `
  + `${parties.map((each) => `${each} all but ${commas(terms.absent_columns.find((one) => one.party === each).columns)}`).join('; ')}. `
  + `What an institution does not hold of them is not read, also where its table has it. Each of them sends a keyed hash of the column ${key} with each row, and its rows in the order of the hashes. `
  + 'The analyst puts the rows side by side that all of them have, and trains on these alone. '
  + `Of a row they send ${commas(parties.map((each, index) => `${each} ${dims[index]}`))}; the labels are those of ${labels} alone. `
  + 'The analyst learns which rows these tables have in common, and every institution reads how many. '
  + `Whoever of them predicts for a row needs a part from each other of them, with the hash of the row and ${terms.latent_dim} numbers.`;

const absentLine = (terms) => `Columns that institutions lack: ${lackingAlone(terms).map((each) => `${each.party} lacks ${commas(each.columns)}`).join('; ')}. `
  + 'Such an institution takes part with its other columns: these columns of its table are not read, also where it has them. '
  + 'Its secret basis is zero on their encoded features, of its rows and of the anchor. The model predicts there from the other columns alone.';

function labelLine(label) {
  if (label.kind === 'number') {
    return `The model predicts the column ${label.name}, a number from ${plainNumber(label.low)} to ${plainNumber(label.high)}. A table with a number outside is refused.`;
  }
  if (label.kind === 'survival') {
    return `The model predicts survival: the column ${label.name} says how long a row was observed, and the column ${label.event} whether that ended with the event (${label.seen}) or not (${label.censored}). `
      + `A time beyond ${plainNumber(label.horizon)} counts as one without the event. The answer is the probability that the event comes after each of these times: ${numbers(label.times)}.`;
  }
  if (label.kind === 'multilabel') {
    const told = label.labels.map(({ name, present, absent }) => `${name} (${present}, or else ${absent})`).join('; ');
    return `The model predicts several labels of a row, the probability of each by itself: ${told}.`;
  }
  return `The model predicts the column ${label.name}, which is one of: ${commas(label.classes)}.`;
}

const MAPS = {
  'kernel-pca': 'principal axes of a Gaussian kernel with rows of the anchor',
  onnx: 'a file of the institution\'s own, such as an encoder that it has trained',
  'random-features': 'cosines of random combinations of the features',
};

function sent(terms) {
  const m = schemaWidth(terms.table_schema);
  const least = terms.least_latent_dim;
  const many = (each) => [...(least === undefined ? [] : [least]), terms.latent_dim].map((dim) => dim * each).join(' to ');
  const bytes = BYTES[terms.rep_dtype];
  const axes = least === undefined ? `the ${terms.latent_dim} leading axes of its rows` : 'as many leading axes of its rows as it sends numbers of each';
  const label = { multilabel: 'which of the labels each row has, unchanged, and with it the number of rows.', number: 'the number to predict of each row, rounded to a 32-bit float, and with it the number of rows.', survival: 'the time of each row, rounded to a 32-bit float, and whether it ended with the event, and with it the number of rows.' };
  return [
    'This institution sends to the analyst, once:',
    `- the projection of each row: ${many(1)} numbers (${many(bytes)} bytes) in place of its ${m} encoded features, computed with a secret basis that stays here;`,
    `- the projection of the anchor with the same basis (${many(bytes * terms.anchor.rows)} bytes); the anchor is a matrix that the institutions share and the analyst does not receive;`,
    `- ${label[terms.table_schema.label_column.kind] ?? 'the label of each row, unchanged, and with it the number of rows.'}`,
    ...(terms.joined_rows === undefined ? [] : ['Of joined rows an institution sends only what stands above: as many numbers of a row, made of the columns that it holds, and the labels if they are its own.']),
    ...(least === undefined ? [] : [`Each institution chooses by itself how many numbers of a row it sends, and every institution reads the choice in the report. One that chooses nothing sends ${terms.latent_dim}, or as many as it has encoded features. Fewer numbers tell the analyst less of a row and teach the model less, and the institution may be predicted for worse.`]),
    ...(terms.own_maps === undefined ? [] : [`Each institution may map its rows, and the anchor, by a non-linear function of its own before the projection: ${terms.own_maps.map((kind) => `${kind} (${MAPS[kind]})`).join('; ')}. The function stays here, as the basis does, and nobody is told which institution has which. One that chooses nothing projects its encoded features as they are.`]),
    `Projections are rounded to ${ROUNDED[terms.rep_dtype]}.`,
    ...(terms.dither > 0 ? [`Before that, noise is added to the projections of the rows: along every direction, its standard deviation is at least ${plainNumber(terms.dither)} times that of the projections.`] : []),
    ...(terms.least_signal ? [`Before it sends, this institution measures how much of its own score of each row lies along ${axes}, and asks a person if that is less than ${plainNumber(terms.least_signal)} (R squared).`] : []),
    ...exposureLine(terms.exposure),
    ...(terms.hold_out > 0 ? [`This institution keeps ${plainNumber(terms.hold_out)} of its rows back, chosen at random. It evaluates the model on them, beside a model of its own rows alone.`] : []),
    ...(terms.returns_scores ? ['It may send the result back: the two scores, the interval of their difference and the number of rows. The analyst and every institution read it.'] : []),
  ];
}

function exposureLine(exposure) {
  const limits = [
    [exposure?.max_exact_rows, (it) => `more than ${plainNumber(it)} of its rows can be rebuilt in every column`],
    [exposure?.max_found_columns, (it) => `more than ${it} columns are found without the secret basis`],
    [exposure?.min_hidden_bits, (it) => `fewer than ${plainNumber(it)} bits of a row stay here`],
  ].filter(([limit]) => limit !== null && limit !== undefined).map(([limit, say]) => say(limit));
  return limits.length ? [`Before it sends, this institution attacks its own rows. It does not send if ${limits.join(', or ')}.`] : [];
}

const modelWords = (terms) => (terms.model.kind === 'auto'
  ? `auto: the best of several on rows that did not train them, of these kinds: ${commas(kindsOf(terms))}` : terms.model.kind);

function returned(terms) {
  const weighted = (terms.model.candidates ?? [terms.model]).filter((each) => each.class_weight).map((each) => each.kind);
  const [first, last] = nri(terms) ? nriLines(terms) : [
    [`The analyst sends back: one model for ${terms.model_groups ? 'each group of institutions' : 'all institutions'} (${modelWords(terms)}), and for this institution alone the change-of-basis matrix that it needs to use the model.`],
    'Who sees what: the analyst sees everything that this institution sends. Other institutions see the model, and how many rows each institution sent.',
  ];
  const privacy = terms.model_privacy;
  const days = terms.retention_days;
  return [
    ...first,
    ...(weighted.length ? [`Class weights: a model of the kind ${[...new Set(weighted)].join(' or ')} is trained so that every class counts the same, however few rows it has. Its probabilities are those of rows with equally many of every class: for a rare class they are higher than its share of the rows.`] : []),
    ...(privacy ? [`The model is trained with noise: it is differentially private with epsilon ${plainNumber(privacy.epsilon)} and delta ${plainNumber(privacy.delta)}. This bounds what anybody can learn from the model about any one projected row and its label, all bases and the alignment being given. It does not protect the row from the analyst.`] : []),
    ...(terms.alignment.method === 'auto' ? [`The analyst tries several ways to bring the rows into the common representation (${commas(terms.alignment.candidates)}). It takes the one with which a model predicts best on rows that did not train it. Every institution reads the mean score of each.`] : []),
    ...(terms.model_groups ? [groupsLine(terms.model_groups)] : []),
    last,
    ...(days ? [`How long: ${days} day${days === 1 ? '' : 's'} after the model is released, or without a release after the last institution has sent, the analyst ends the round and erases what it was sent and what it sends back. Its records of the round stay, and no institution can check that the rest is erased.`] : []),
  ];
}

const groupsLine = ({ largest_distance: largest, least_parties: least }) => 'Groups: the analyst puts institutions into groups in which the shares of the classes of any two '
  + `differ by at most ${plainNumber(largest)} in all (total variation). A group of at least ${least} institutions gets a model that was trained on the rows of the group alone. `
  + 'All others, and a group with too few rows of a class, get one that was trained on the rows of all. Every institution reads which groups have a model of their own.';

function nriLines(terms) {
  const bytes = 4 * terms.anchor.rows * terms.table_schema.label_column.classes.length;
  return [
    [
      `The analyst sends back, for this institution alone: what the model for all institutions (${modelWords(terms)}) predicts for each of the ${terms.anchor.rows} anchor rows (${bytes} bytes). It sends neither the model nor a change-of-basis matrix. From these predictions this institution trains a model of its own.`,
      'Precautions (NRI-DC): this institution sends its rows in random order, and computes the basis from perturbed rows. It erases the basis right after the analyst\'s receipt, and the anchor once its own model is trained.',
    ],
    'Who sees what: the analyst sees everything that this institution sends. Other institutions see how many rows each institution sent.',
  ];
}

const SHARED = {
  1: 'Warning: shared representation: the analyst brings the rows of all institutions into one common representation. The analyst and one member together could rebuild what the projection keeps of your rows; `odc prepare` measures how much that is. An analyst that has other rows of the same population could estimate it alone.',
  2: 'Warning: shared representation: the analyst brings the rows of all institutions into one common representation. The analyst and one member together know the secret basis. With it they can rebuild values of your rows, and whole rows where columns have few values. The analyst alone can recover some columns, recognise rows that it knows from elsewhere, and find the same person at two institutions. `odc prepare` can try some of this on your rows. Treat the projections as personal data.',
};
const ANCHORS = {
  uniform: 'Warning: uniform anchor: it tells the analyst more about each secret basis than a haar anchor would.',
  public: 'Warning: public anchor: its rows come from a table. Whoever has that table can guess the anchor better than a random one, and an analyst that has the anchor could rebuild what the projection keeps of your rows.',
};

function warnings(terms) {
  const { columns, label_column: label } = terms.table_schema;
  const m = schemaWidth(terms.table_schema);
  const schema2 = terms.terms_schema === 2;
  const revealing = rowRevealing(terms);
  const bare = (terms.absent_columns ?? []).map((each) => each.party)
    .map((each) => [each, schemaWidth(schemaOf(terms, each))])
    .filter(([each, width]) => width < m && width <= latentDimsOf(terms, each)[1])
    .map(([each]) => each);
  const few = nri(terms) && terms.anchor.kind === 'gaussian' && terms.anchor.rows < 20 * m;
  return [
    revealing.length && `Warning: row-revealing model: a model of the kind ${revealing.join(' or ')} contains training rows. From it every other institution can rebuild what the projection keeps of these rows, including yours. Signing these terms needs a separate consent.`,
    SHARED[terms.terms_schema],
    label.kind === 'multilabel' && 'Warning: several labels: all labels of a row together may be those of one person alone. An analyst that has them from elsewhere recognises the row.',
    ['number', 'survival'].includes(label.kind) && 'Warning: exact labels: a number or a time may be known of one person alone. An analyst that has it from elsewhere recognises the row.',
    terms.dither > 0 ? 'Warning: no differential privacy: the noise makes attacks harder and guarantees nothing about a row.'
      : 'Warning: no differential privacy: these terms do not require noise to be added to anything that is sent.',
    terms.model_groups && 'Warning: models of groups: the model of a small group is made of the rows of few institutions. In a group of two, each can tell from the model more of the other\'s rows than from a model of all, and knows about which shares of the classes the other has.',
    ANCHORS[terms.anchor.kind],
    few && `Warning: few anchor rows: this institution's own model is trained on ${terms.anchor.rows} anchor rows. With fewer than ${20 * m} it may predict much worse than the model for all institutions.`,
    columns.some((each) => !['numeric', 'categorical'].includes(each.kind)) && 'Warning: figures of a table: the quantiles, ranges, centres and shares below describe one institution\'s table or a public one. The analyst and every institution read them.',
    columns.some((each) => each.dates) && 'Warning: dates: a day may be known of one person alone, and so may the days between two. Whoever has them from elsewhere can recognise the row by them.',
    terms.absent_columns && 'Warning: approximate alignment: the common representation is exact where the secret bases of all institutions span the same space, and an institution that lacks columns cannot have the same space as the others. Its rows may teach the model less, and it may be predicted for worse. The report says how far from the others each such institution stays.',
    bare.length && `Warning: nothing is projected away at ${commas(bare)}: each row becomes as many numbers as it has encoded features without the columns that are lacking, so that whoever knows the secret basis knows the row.`,
    terms.joined_rows && `Warning: joined rows: every institution has the key of the hashes. The analyst and one of them together can try whom a row is about, by hashing every ${commas([...new Set(terms.joined_rows.map((each) => each.row_key))])} that may be, and so can whoever gets a part. The analyst alone cannot; it sees that a row is in several tables.`,
    terms.own_maps && 'Warning: non-linear maps: what they have in common is fitted on the anchor\'s rows, and holds for rows like these. The model may predict worse than with linear maps, for every institution. Such a map hides no row: rows that are alike stay alike, and whoever has the anchor can learn from its projection how to rebuild rows. `odc prepare` tries that.',
    schema2 && terms.latent_dim === m && 'Warning: nothing is projected away: each row becomes as many numbers as it has encoded features, so that whoever knows the secret basis knows the row.',
  ].filter(Boolean);
}

/** A number of days as the day that has it, where there is one. */
function day(value) {
  const first = new Date('0001-01-01T00:00:00Z').getTime() / 86400000;
  const last = new Date('9999-12-31T00:00:00Z').getTime() / 86400000;
  return Number.isInteger(value) && value >= first && value <= last ? new Date(value * 86400000).toISOString().slice(0, 10) : plainNumber(value);
}

const isDate = (column) => column.dates !== undefined && column.since === undefined;

function emptyWords(column) {
  const { impute } = column;
  if (column.empty === 'refuse' || impute === null) return 'an empty field is refused';
  const show = isDate(column) ? day : plainNumber;
  const instead = impute === undefined ? 'the middle' : typeof impute === 'number' ? show(impute) : impute;
  const flag = typeof column.missing_share === 'number' ? `, and one more feature says whether the field is empty, less the share ${plainNumber(column.missing_share)}` : '';
  return `an empty field counts as ${instead}${flag}`;
}

function columnLine(column) {
  const [show, thing] = isDate(column) ? [day, 'date'] : [plainNumber, 'number'];
  const start = column.dates === undefined ? '' : column.since === undefined ? `a date written as ${column.dates}, ` : `the days since the date in ${column.since}, both written as ${column.dates}, `;
  const moved = `a ${thing} outside is moved to the nearer end`;
  const words = {
    numeric: () => `from ${plainNumber(column.low)} to ${plainNumber(column.high)}; a number outside is ${column.out_of_range === 'clip' ? 'moved to the nearer end' : 'refused'}; ${emptyWords(column)}`,
    categorical: () => `one of ${commas(column.levels)}; ${emptyWords(column)}`,
    ranks: () => `${start}its rank among the ${column.quantiles.length} quantiles ${commas(column.quantiles.map(show))}; ${moved}; ${emptyWords(column)}`,
    range() {
      const [low, high, centre] = [column.low, column.high, column.centre].map(show);
      const place = column.scale === undefined ? `from ${low} to ${high}, less ${centre}` : `its logarithm, between those of ${low} and ${high}, less that of ${centre}`;
      return `${start}${place}; ${moved}; ${emptyWords(column)}`;
    },
    levels: () => `one of ${commas(column.levels)}, with the shares ${numbers(column.shares)}, each less its share and times ${plainNumber(column.weight)}; ${column.other === undefined ? '' : `any other text counts as ${column.other}; `}${emptyWords(column)}`,
    ordinal: () => `one of ${commas(column.levels)}, as its place in this order from -1 to 1, less ${plainNumber(column.centre)}; ${emptyWords(column)}`,
  };
  const also = column.missing === undefined ? '' : `; texts that also stand for an empty field: ${commas(column.missing)}`;
  return `- ${column.name}: ${words[column.kind]()}${also}`;
}
