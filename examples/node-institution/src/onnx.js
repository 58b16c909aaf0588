// The model (section 9): reads an ONNX file within the profile, and evaluates those of the kinds
// logistic, mlp and averaged for classes. The file is data from the analyst; nothing in it is run.

import { refuse } from './errors.js';

const refused = (detail) => refuse('model-refused', detail);

/** The fields of a protobuf message: number -> what stands there, in order. */
function fieldsOf(bytes, allowed) {
  const found = {};
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (at >= bytes.length) refused('cut off');
      const byte = bytes[at];
      at += 1;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asIntN(64, value);
    }
    return refused('a number too long');
  };
  const take = (size) => {
    if (size < 0 || at + size > bytes.length) refused('cut off');
    at += size;
    return bytes.subarray(at - size, at);
  };
  while (at < bytes.length) {
    const key = Number(varint());
    const [number, wire] = [key >>> 3, key & 7];
    if (!Object.hasOwn(allowed, number)) refused(`the field ${number}`);
    const value = { 0: varint, 1: () => take(8), 2: () => take(Number(varint())), 5: () => take(4) }[wire]?.();
    if (value === undefined) refused(`the wire type ${wire}`);
    const [name, many] = [allowed[number].replace('*', ''), allowed[number].endsWith('*')];
    if (!many && found[name] !== undefined) refused(`${name} twice`);
    found[name] = many ? [...(found[name] ?? []), value] : value;
  }
  return found;
}

const MODEL = { 1: 'ir', 2: 'producer', 3: 'version', 4: 'domain', 5: 'number', 6: 'text', 7: 'graph', 8: 'opsets*' };
const OPSET = { 1: 'domain', 2: 'version' };
const GRAPH = { 1: 'nodes*', 2: 'name', 5: 'initializers*', 10: 'text', 11: 'inputs*', 12: 'outputs*', 13: 'values*' };
const NODE = { 1: 'inputs*', 2: 'outputs*', 3: 'name', 4: 'operator', 5: 'attributes*', 6: 'text', 7: 'domain' };
const ATTRIBUTE = { 1: 'name', 3: 'number', 4: 'string', 7: 'floats*', 8: 'integers*', 9: 'strings*', 13: 'text', 20: 'type' };
const TENSOR = { 1: 'dims*', 2: 'type', 4: 'floats*', 5: 'integers*', 7: 'longs*', 8: 'name', 9: 'raw', 10: 'doubles*', 12: 'text' };
const OPSETS = { '': [13, 22], 'ai.onnx': [13, 22], 'ai.onnx.ml': [1, 3] };
const OPERATORS = {
  '': ('Add ArgMax Cast Clip Concat Cos Div Exp Flatten Gather Identity LpNormalization MatMul Max Mul ReduceMax ReduceSum Relu Reshape '
    + 'Sigmoid Slice Softmax Sub Sum TopK Transpose Unsqueeze').split(' '),
  'ai.onnx.ml': ('ArrayFeatureExtractor LinearClassifier LinearRegressor Normalizer SVMClassifier Scaler TreeEnsembleClassifier '
    + 'TreeEnsembleRegressor').split(' '),
};
const FLOAT = 1n;
const text = (bytes) => (bytes ?? '').toString();

const floatsOf = (parts = []) => Buffer.concat(parts).length / 4 % 1 ? refused('floats cut off')
  : Array.from({ length: Buffer.concat(parts).length / 4 }, (_, index) => Buffer.concat(parts).readFloatLE(4 * index));

/** A matrix of an initializer; those of other types than float32 only name classes, and are not read. */
function tensor(bytes) {
  const found = fieldsOf(bytes, TENSOR);
  const name = text(found.name);
  if (found.type !== FLOAT) return { name, value: null };
  const dims = dimensions(found.dims);
  const data = floatsOf(found.raw === undefined ? found.floats : [found.raw]);
  if (data.length !== dims.reduce((product, each) => product * each, 1)) refused(`${name} has another shape than numbers`);
  const columns = dims.at(-1) ?? 1;
  return { name, value: { rows: columns ? data.length / columns : 0, columns, data: Float64Array.from(data) } };
}

/** Whole numbers, each by itself or packed. */
function dimensions(parts = []) {
  return parts.flatMap((part) => {
    if (typeof part === 'bigint') return [Number(part)];
    const out = [];
    let value = 0;
    let scale = 1;
    for (const byte of part) {
      value += (byte & 0x7f) * scale;
      scale *= 128;
      if (byte < 0x80) {
        out.push(value);
        [value, scale] = [0, 1];
      }
    }
    return out;
  });
}

function nodeOf(bytes) {
  const found = fieldsOf(bytes, NODE);
  const [operator, domain] = [text(found.operator), text(found.domain).replace(/^ai\.onnx$/, '')];
  if (!Object.hasOwn(OPERATORS, domain) || !OPERATORS[domain].includes(operator)) refused(`the operator ${domain} ${operator}`);
  const attributes = Object.fromEntries((found.attributes ?? []).map((each) => {
    const one = fieldsOf(each, ATTRIBUTE);
    return [text(one.name), one];
  }));
  return { operator, attributes, inputs: (found.inputs ?? []).map(text), outputs: (found.outputs ?? []).map(text) };
}

/** Read a file and refuse what is outside the profile. */
export function readModel(file) {
  const model = fieldsOf(file, MODEL);
  if (model.ir < 7n || model.ir > 10n || model.graph === undefined) refused('another version of ONNX');
  for (const bytes of model.opsets ?? []) {
    const { domain, version = 0n } = fieldsOf(bytes, OPSET);
    const [low, high] = OPSETS[text(domain)] ?? refused(`the domain ${text(domain)}`);
    if (version < low || version > high) refused(`the opset ${version}`);
  }
  const graph = fieldsOf(model.graph, GRAPH);
  const nameOf = (bytes) => text(fieldsOf(bytes, { 1: 'name', 2: 'type', 3: 'text' }).name);
  if ((graph.inputs ?? []).map(nameOf).join() !== 'rep') refused('other inputs than rep');
  const initializers = new Map((graph.initializers ?? []).map(tensor).map(({ name, value }) => [name, value]));
  const makers = new Map();
  const known = new Set(['rep', ...initializers.keys()]);
  if (known.size !== initializers.size + 1) refused('a name given twice');
  for (const node of (graph.nodes ?? []).map(nodeOf)) {
    if (!node.inputs.every((name) => known.has(name))) refused('a name that is used before it is given');
    for (const name of node.outputs) {
      if (known.has(name)) refused('a name given twice');
      known.add(name);
      makers.set(name, node);
    }
  }
  return { initializers, makers, outputs: (graph.outputs ?? []).map(nameOf) };
}

const map = (a, change) => ({ ...a, data: a.data.map(change) });
const float32 = (a) => map(a, Math.fround);

/** Two matrices number by number; the second is as large, one row, one column or one number. */
function combine(a, b, change) {
  if (a.data.length < b.data.length) return combine(b, a, (x, y) => change(y, x));
  const fits = (own, other) => other === own || other === 1;
  if (!fits(a.rows, b.rows) || !fits(a.columns, b.columns)) refused('shapes that do not go together');
  return map(a, (x, index) => change(x, b.data[(b.rows === 1 ? 0 : Math.floor(index / a.columns)) * b.columns + (b.columns === 1 ? 0 : index % a.columns)]));
}

function product(a, b) {
  if (a.columns !== b.rows) refused('shapes that do not go together');
  const data = new Float64Array(a.rows * b.columns);
  for (let i = 0; i < a.rows; i += 1) {
    for (let j = 0; j < b.columns; j += 1) {
      let sum = 0;
      for (let k = 0; k < a.columns; k += 1) sum += a.data[i * a.columns + k] * b.data[k * b.columns + j];
      data[i * b.columns + j] = sum;
    }
  }
  return { rows: a.rows, columns: b.columns, data };
}

const byRows = (a, change) => {
  const data = new Float64Array(a.data.length);
  for (let i = 0; i < a.rows; i += 1) data.set(change(a.data.subarray(i * a.columns, (i + 1) * a.columns)), i * a.columns);
  return { ...a, data };
};
const total = (values) => values.reduce((sum, each) => sum + each, 0);
const softmax = (a) => byRows(a, (row) => {
  const largest = Math.max(...row);
  const powers = row.map((each) => Math.exp(each - largest));
  return powers.map((each) => each / total(powers));
});
const logistic = (a) => map(a, (x) => 1 / (1 + Math.exp(-x)));
const rowOf = (values) => ({ rows: 1, columns: values.length, data: Float64Array.from(values) });

function linearClassifier({ coefficients, intercepts, post_transform: after }, x) {
  const weights = floatsOf(coefficients.floats);
  const classes = weights.length / x.columns;
  if (!Number.isInteger(classes)) refused('coefficients of another width');
  const turned = new Float64Array(weights.length);
  weights.forEach((weight, index) => {
    turned[(index % x.columns) * classes + Math.floor(index / x.columns)] = weight;
  });
  const scores = combine(product(x, { rows: x.columns, columns: classes, data: turned }), rowOf(floatsOf(intercepts.floats)), (a, b) => a + b);
  const transform = { NONE: (a) => a, LOGISTIC: logistic, SOFTMAX: softmax }[text(after?.string) || 'NONE'];
  return (transform ?? refused('a transform'))(scores);
}

const EVALUATE = {
  Identity: (_, a) => a,
  Cast: ({ to }, a) => (to.number === FLOAT ? float32(a) : refused('a cast to no float')),
  MatMul: (_, a, b) => product(a, b),
  Add: (_, a, b) => combine(a, b, (x, y) => x + y),
  Sub: (_, a, b) => combine(a, b, (x, y) => x - y),
  Mul: (_, a, b) => combine(a, b, (x, y) => x * y),
  Div: (_, a, b) => combine(a, b, (x, y) => x / y),
  Sum: (_, ...all) => all.reduce((a, b) => combine(a, b, (x, y) => x + y)),
  Relu: (_, a) => map(a, (x) => Math.max(x, 0)),
  Sigmoid: (_, a) => logistic(a),
  Softmax: (_, a) => softmax(a),
  Concat: ({ axis }, ...all) => {
    if (axis.number !== 1n && axis.number !== -1n) refused('a concatenation of rows');
    const columns = total(all.map((each) => each.columns));
    const data = new Float64Array(all[0].rows * columns);
    for (let i = 0; i < all[0].rows; i += 1) {
      data.set(all.flatMap((each) => [...each.data.subarray(i * each.columns, (i + 1) * each.columns)]), i * columns);
    }
    return { rows: all[0].rows, columns, data };
  },
  Scaler: ({ offset, scale }, a) => combine(combine(a, rowOf(floatsOf(offset.floats)), (x, y) => x - y), rowOf(floatsOf(scale.floats)), (x, y) => x * y),
  Normalizer: (_, a) => byRows(a, (row) => {
    const length = total(row.map(Math.abs)) || 1;
    return row.map((each) => each / length);
  }),
};

/** The output of this name for the rows of `rep`; only what it needs is computed. */
export function evaluate(model, output, rep) {
  if (!model.outputs.includes(output)) refused(`no output ${output}`);
  const values = new Map([['rep', float32(rep)]]);
  const value = (name) => {
    if (!values.has(name)) values.set(name, compute(name));
    return values.get(name) ?? refused(`${name} is no matrix of floats`);
  };
  const compute = (name) => {
    if (model.initializers.has(name)) return model.initializers.get(name);
    const node = model.makers.get(name);
    const probabilities = node.operator === 'LinearClassifier';
    if (probabilities) {
      if (node.outputs.indexOf(name) !== 1) refused('labels are not evaluated');
      return float32(linearClassifier(node.attributes, value(node.inputs[0])));
    }
    if (!Object.hasOwn(EVALUATE, node.operator)) refused(`this client does not evaluate ${node.operator}`);
    return float32(EVALUATE[node.operator](node.attributes, ...node.inputs.map(value)));
  };
  return value(output);
}
