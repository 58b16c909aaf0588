// Matrices in row order: {rows, columns, data: Float64Array}.

export const matrix = (rows, columns, data = new Float64Array(rows * columns)) => ({ rows, columns, data });

export const fromRows = (rows, columns) => matrix(rows.length, columns, Float64Array.from(rows.flat()));

export function multiply(a, b) {
  const out = matrix(a.rows, b.columns);
  for (let i = 0; i < a.rows; i += 1) {
    for (let k = 0; k < a.columns; k += 1) {
      const factor = a.data[i * a.columns + k];
      if (factor === 0) continue;
      for (let j = 0; j < b.columns; j += 1) out.data[i * b.columns + j] += factor * b.data[k * b.columns + j];
    }
  }
  return out;
}

export function transpose(a) {
  const out = matrix(a.columns, a.rows);
  for (let i = 0; i < a.rows; i += 1) for (let j = 0; j < a.columns; j += 1) out.data[j * a.rows + i] = a.data[i * a.columns + j];
  return out;
}

export const rowLength = (a, row) => Math.hypot(...a.data.subarray(row * a.columns, (row + 1) * a.columns));

/** Q of N = Q R with a positive diagonal of R, by Gram-Schmidt, twice for each column. */
export function orthogonalFactor(n) {
  const columns = transpose(n);
  const size = n.rows;
  const column = (index) => columns.data.subarray(index * size, (index + 1) * size);
  const dot = (a, b) => a.reduce((sum, each, index) => sum + each * b[index], 0);
  for (let j = 0; j < columns.rows; j += 1) {
    const own = column(j);
    for (let pass = 0; pass < 2; pass += 1) {
      for (let k = 0; k < j; k += 1) {
        const other = column(k);
        const along = dot(own, other);
        for (let i = 0; i < size; i += 1) own[i] -= along * other[i];
      }
    }
    const length = Math.sqrt(dot(own, own));
    for (let i = 0; i < size; i += 1) own[i] /= length;
  }
  return transpose(columns);
}

/** Right singular vectors of `a` as columns, the largest first: Jacobi rotations of its Gram matrix. */
export function rightSingularVectors(a) {
  const size = a.columns;
  const gram = multiply(transpose(a), a).data;
  const vectors = matrix(size, size);
  for (let i = 0; i < size; i += 1) vectors.data[i * size + i] = 1;
  for (let sweep = 0; sweep < 60; sweep += 1) {
    let turned = false;
    for (let p = 0; p < size - 1; p += 1) {
      for (let q = p + 1; q < size; q += 1) turned = rotate(gram, vectors.data, size, p, q) || turned;
    }
    if (!turned) break;
  }
  const order = Array.from({ length: size }, (_, index) => index).sort((x, y) => gram[y * size + y] - gram[x * size + x]);
  const sorted = matrix(size, size);
  order.forEach((from, to) => {
    for (let i = 0; i < size; i += 1) sorted.data[i * size + to] = vectors.data[i * size + from];
  });
  return sorted;
}

/** One Jacobi rotation that makes entry (p, q) of the symmetric `gram` zero; false if it is already. */
function rotate(gram, vectors, size, p, q) {
  const [off, pp, qq] = [gram[p * size + q], gram[p * size + p], gram[q * size + q]];
  if (Math.abs(off) <= 1e-16 * Math.sqrt(Math.abs(pp * qq)) || off === 0) return false;
  const theta = (qq - pp) / (2 * off);
  const tangent = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(theta, 1));
  const cosine = 1 / Math.hypot(tangent, 1);
  const sine = tangent * cosine;
  for (let k = 0; k < size; k += 1) turn(gram, k * size + p, k * size + q, cosine, sine);
  for (let k = 0; k < size; k += 1) turn(gram, p * size + k, q * size + k, cosine, sine);
  for (let k = 0; k < size; k += 1) turn(vectors, k * size + p, k * size + q, cosine, sine);
  return true;
}

function turn(data, i, j, cosine, sine) {
  const [x, y] = [data[i], data[j]];
  data[i] = cosine * x - sine * y;
  data[j] = sine * x + cosine * y;
}

/** The first `count` columns. */
export function leading(a, count) {
  const out = matrix(a.rows, count);
  for (let i = 0; i < a.rows; i += 1) out.data.set(a.data.subarray(i * a.columns, i * a.columns + count), i * count);
  return out;
}
