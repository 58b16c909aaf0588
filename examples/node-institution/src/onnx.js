// The model (section 9): reads an ONNX file within the profile. The file is data from the analyst; nothing in it is run.

import { orRefuse, refuse } from './errors.js';

export const refused = (detail) => refuse('model-refused', detail);

/** The wire types that a field may have, by the last sign of its kind: bytes or a text, # whole numbers, % floats of 32 bits, & of 64. */
const WIRE_TYPES = { '#': [0], '#*': [0, 2], '%*': [5, 2], '&*': [1, 2] };

/** The fields of a protobuf message: name -> what stands there, in order for one that is a list (*). */
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
    const [, name, kind] = /^(\w+)(.*)$/.exec(allowed[number]);
    if (!(WIRE_TYPES[kind] ?? [2]).includes(wire)) refused(`${name} of the wire type ${wire}`);
    const value = { 0: varint, 1: () => take(8), 2: () => take(Number(varint())), 5: () => take(4) }[wire]();
    if (!kind.endsWith('*') && found[name] !== undefined) refused(`${name} twice`);
    found[name] = kind.endsWith('*') ? [...(found[name] ?? []), value] : value;
  }
  return found;
}

const MODEL = { 1: 'ir#', 2: 'producer', 3: 'version', 4: 'domain', 5: 'number#', 6: 'text', 7: 'graph', 8: 'opsets*' };
const OPSET = { 1: 'domain', 2: 'version#' };
const GRAPH = { 1: 'nodes*', 2: 'name', 5: 'initializers*', 10: 'text', 11: 'inputs*', 12: 'outputs*', 13: 'values*' };
const VALUE = { 1: 'name', 2: 'type', 3: 'text' };
const NODE = { 1: 'inputs*', 2: 'outputs*', 3: 'name', 4: 'operator', 5: 'attributes*', 6: 'text', 7: 'domain' };
const ATTRIBUTE = { 1: 'name', 3: 'number#', 4: 'string', 7: 'floats%*', 8: 'integers#*', 9: 'strings*', 13: 'text', 20: 'type#' };
const TENSOR = { 1: 'dims#*', 2: 'type#', 4: 'floats%*', 5: 'integers#*', 7: 'longs#*', 8: 'name', 9: 'raw', 10: 'doubles&*', 12: 'text' };
/** Where the value of an attribute stands, and the numbers of an initializer with their size, by the type that it says. */
const ATTRIBUTE_TYPES = { 2: 'number', 3: 'string', 6: 'floats', 7: 'integers', 8: 'strings' };
const TENSOR_TYPES = { 1: ['floats', 4], 6: ['integers', 4], 7: ['longs', 8], 11: ['doubles', 8] };
const IR_VERSIONS = [7, 10];
const OPSETS = { '': [13, 22], 'ai.onnx.ml': [1, 3] };
const OPERATORS = {
  '': ('Add ArgMax Cast Clip Concat Cos Div Exp Flatten Gather Identity LpNormalization MatMul Max Mul ReduceMax ReduceSum Relu Reshape '
    + 'Sigmoid Slice Softmax Sub Sum TopK Transpose Unsqueeze').split(' '),
  'ai.onnx.ml': ('ArrayFeatureExtractor LinearClassifier LinearRegressor Normalizer SVMClassifier Scaler TreeEnsembleClassifier '
    + 'TreeEnsembleRegressor').split(' '),
};
/** The texts that an attribute may have, where the profile says so. */
const TEXTS = { post_transform: ['NONE', 'LOGISTIC', 'SOFTMAX'], nodes_modes: ['BRANCH_LEQ', 'LEAF'], norm: ['L1'], kernel_type: ['RBF'] };
const MAX_PARTS = 65536;
const MAX_ATTRIBUTES = 32;
const MAX_NAME_BYTES = 1000;
const MAX_DIMENSIONS = 8;
const ALWAYS_ALLOWED = 16777216;
export const FLOAT = 1n;
const distinct = (names) => new Set(names).size === names.length;

export function text(bytes = Buffer.alloc(0)) {
  if (bytes.length > MAX_NAME_BYTES) refused('a name that is too long');
  return orRefuse('model-refused', 'a name that is no text', () => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
}

export const floatsOf = (parts = []) => {
  const bytes = Buffer.concat(parts);
  if (bytes.length % 4) refused('floats cut off');
  return Array.from({ length: bytes.length / 4 }, (_, index) => bytes.readFloatLE(4 * index));
};

/** A matrix of an initializer; those of other types than float32 only name classes, and are not evaluated. */
function tensor(bytes) {
  const found = fieldsOf(bytes, TENSOR);
  const name = text(found.name);
  const [own, size] = TENSOR_TYPES[found.type] ?? refused(`${name} of the type ${found.type}`);
  const places = ['floats', 'integers', 'longs', 'doubles', 'raw'].filter((each) => found[each] !== undefined);
  if (places.length > 1 || !['raw', own].includes(places[0] ?? own)) refused(`${name} with numbers in another place`);
  const dims = dimensions(found.dims);
  if (dims.length > MAX_DIMENSIONS || dims.some((each) => each < 0)) refused(`${name} with dimensions that there are not`);
  const isWhole = places[0] === 'integers' || places[0] === 'longs';
  const count = isWhole ? dimensions(found[own]).length : Buffer.concat(found.raw === undefined ? found[own] ?? [] : [found.raw]).length / size;
  if (count !== dims.reduce((product, each) => product * each, 1)) refused(`${name} has another shape than numbers`);
  if (found.type !== FLOAT) return { name, value: null };
  const data = floatsOf(found.raw === undefined ? found.floats : [found.raw]);
  const columns = dims.at(-1) ?? 1;
  return { name, value: { rows: columns ? data.length / columns : 0, columns, data: Float64Array.from(data) } };
}

/** Whole numbers, each by itself or packed. */
function dimensions(parts = []) {
  return parts.flatMap((part) => {
    if (typeof part === 'bigint') return [Number(part)];
    if (part.length && part.at(-1) >= 0x80) refused('a number cut off');
    const out = [];
    let value = 0n;
    let shift = 0n;
    for (const byte of part) {
      value |= BigInt(byte & 0x7f) << shift;
      shift += 7n;
      if (byte < 0x80) {
        out.push(Number(BigInt.asIntN(64, value)));
        [value, shift] = [0n, 0n];
      }
    }
    return out;
  });
}

/** An attribute: its name, its one value and whether the profile has it. */
function attributeOf(bytes) {
  const found = fieldsOf(bytes, ATTRIBUTE);
  const name = text(found.name);
  const own = ATTRIBUTE_TYPES[found.type] ?? refused(`${name} of another type`);
  if (Object.values(ATTRIBUTE_TYPES).some((each) => each !== own && found[each] !== undefined)) refused(`${name} with two values`);
  const texts = found.strings ?? (found.string === undefined ? [] : [found.string]);
  if (Object.hasOwn(TEXTS, name) && !texts.every((each) => TEXTS[name].includes(each.toString()))) refused(`${name} that is not in the profile`);
  return [name, found];
}

function nodeOf(bytes, domains) {
  const found = fieldsOf(bytes, NODE);
  const [operator, domain] = [text(found.operator), text(found.domain)];
  if (!domains.has(domain) || !OPERATORS[domain].includes(operator)) refused(`the operator ${domain} ${operator}`);
  const attributes = (found.attributes ?? []).map(attributeOf);
  if (attributes.length > MAX_ATTRIBUTES || !distinct(attributes.map(([name]) => name))) refused(`a ${operator} with too many attributes, or one twice`);
  return { operator, attributes: Object.fromEntries(attributes), inputs: (found.inputs ?? []).map(text), outputs: (found.outputs ?? []).map(text) };
}

/** The domains of a file, each in a version that the profile has. */
function domainsOf(opsets = []) {
  return new Set(opsets.map((bytes) => {
    const { domain, version = 0n } = fieldsOf(bytes, OPSET);
    const name = text(domain);
    const [low, high] = Object.hasOwn(OPSETS, name) ? OPSETS[name] : refused(`the domain ${name}`);
    return version >= low && version <= high ? name : refused(`the opset ${version}`);
  }));
}

/** Read a file and refuse what is outside the profile. */
export function readModel(file) {
  const model = fieldsOf(file, MODEL);
  const [oldest, newest] = IR_VERSIONS;
  if (model.ir === undefined || model.ir < oldest || model.ir > newest || model.graph === undefined) refused('another version of ONNX');
  const domains = domainsOf(model.opsets);
  const graph = fieldsOf(model.graph, GRAPH);
  const { nodes: nodeParts = [], initializers: tensorParts = [] } = graph;
  if (nodeParts.length > MAX_PARTS || tensorParts.length > MAX_PARTS) refused('too many parts');
  const namesOf = (values = []) => values.map((bytes) => text(fieldsOf(bytes, VALUE).name));
  if (namesOf(graph.inputs).join() !== 'rep') refused('other inputs than rep');
  const tensors = tensorParts.map(tensor);
  const initializers = new Map(tensors.map(({ name, value }) => [name, value]));
  const makers = new Map();
  const known = new Set(['rep', ...initializers.keys()]);
  if (known.size !== tensors.length + 1) refused('a name given twice');
  for (const node of nodeParts.map((bytes) => nodeOf(bytes, domains))) {
    if (!node.inputs.every((name) => known.has(name))) refused('a name that is used before it is given');
    for (const name of node.outputs) {
      if (known.has(name)) refused('a name given twice');
      known.add(name);
      makers.set(name, node);
    }
  }
  const outputs = namesOf(graph.outputs);
  if (!outputs.every((name) => known.has(name))) refused('an output that nothing makes');
  return { initializers, makers, outputs, most: Math.max(ALWAYS_ALLOWED, file.length / 4) };
}
