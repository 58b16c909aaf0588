// What a model answers (section 9), for those of the kinds logistic, mlp and averaged for classes.
// A matrix is {rows, columns, data}; every value is rounded to 32-bit floats.

import { FLOAT, floatsOf, refused, text } from './onnx.js';

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

/** Softmax and Concat along the numbers of a row; along the rows they would mix people. */
const alongRows = ({ axis }) => (axis === undefined || axis.number === -1n || axis.number === 1n ? null : refused('an operator along the rows'));

/** What an operator makes of its inputs; `take` is asked before something larger than these is made. */
const EVALUATE = {
  Identity: (_, a) => a,
  Cast: ({ attributes: { to } }, a) => (to.number === FLOAT ? float32(a) : refused('a cast to no float')),
  MatMul: ({ take }, a, b) => {
    take(a.rows, b.columns);
    return product(a, b);
  },
  Add: (_, a, b) => combine(a, b, (x, y) => x + y),
  Sub: (_, a, b) => combine(a, b, (x, y) => x - y),
  Mul: (_, a, b) => combine(a, b, (x, y) => x * y),
  Div: (_, a, b) => combine(a, b, (x, y) => x / y),
  Sum: (_, ...all) => all.reduce((a, b) => combine(a, b, (x, y) => x + y)),
  Relu: (_, a) => map(a, (x) => Math.max(x, 0)),
  Sigmoid: (_, a) => logistic(a),
  Softmax: ({ attributes }, a) => {
    alongRows(attributes);
    return softmax(a);
  },
  Concat: ({ attributes, take }, ...all) => {
    alongRows(attributes);
    const columns = total(all.map((each) => each.columns));
    take(all[0].rows, columns);
    const data = new Float64Array(all[0].rows * columns);
    for (let i = 0; i < all[0].rows; i += 1) {
      data.set(all.flatMap((each) => [...each.data.subarray(i * each.columns, (i + 1) * each.columns)]), i * columns);
    }
    return { rows: all[0].rows, columns, data };
  },
  Scaler: ({ attributes: { offset, scale } }, a) => combine(combine(a, rowOf(floatsOf(offset.floats)), (x, y) => x - y), rowOf(floatsOf(scale.floats)), (x, y) => x * y),
  Normalizer: (_, a) => byRows(a, (row) => {
    const length = total(row.map(Math.abs)) || 1;
    return row.map((each) => each / length);
  }),
};

/** The output of this name for the rows of `rep`. The first row goes alone, which shows how much a row takes. */
export function evaluate(model, output, rep) {
  if (!model.outputs.includes(output)) refused(`no output ${output}`);
  if (rep.rows > 1) evaluateRows(model, output, { rows: 1, columns: rep.columns, data: rep.data.subarray(0, rep.columns) });
  return evaluateRows(model, output, rep);
}

/** The same; only what the output needs is computed. */
function evaluateRows(model, output, rep) {
  const values = new Map([['rep', float32(rep)]]);
  const take = (rows, columns) => (rows * columns > model.most * Math.max(rep.rows, 1) ? refused('a value of too many numbers') : null);
  const value = (name) => {
    if (!values.has(name)) values.set(name, compute(name));
    return values.get(name) ?? refused(`${name} is no matrix of floats`);
  };
  const compute = (name) => {
    if (model.initializers.has(name)) return model.initializers.get(name);
    const { operator, attributes, inputs, outputs } = model.makers.get(name);
    if (operator === 'LinearClassifier') {
      if (outputs.indexOf(name) !== 1) refused('labels are not evaluated');
      return float32(linearClassifier(attributes, value(inputs[0])));
    }
    if (!Object.hasOwn(EVALUATE, operator)) refused(`this client does not evaluate ${operator}`);
    return float32(EVALUATE[operator]({ attributes, take }, ...inputs.map(value)));
  };
  const found = value(output);
  return found.rows === rep.rows ? found : refused('another number of rows than it was asked for');
}
