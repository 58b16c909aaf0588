// Dates of a table (section 6): microseconds since 1970-01-01 00:00, as BigInt.

const DAYS = {
  iso: [/^(\d{4})-(\d{2})-(\d{2})/, 'ymd'],
  yyyymmdd: [/^(\d{4})(\d{2})(\d{2})/, 'ymd'],
  ddmmyyyy: [/^(\d{1,2})(\d{2})(\d{4})(?!\d)/, 'dmy'],
  mmddyyyy: [/^(\d{1,2})(\d{2})(\d{4})(?!\d)/, 'mdy'],
  'yyyy/mm/dd': [/^(\d{4})\/(\d{1,2})\/(\d{1,2})(?!\d)/, 'ymd'],
  'dd.mm.yyyy': [/^(\d{1,2})\.(\d{1,2})\.(\d{4})/, 'dmy'],
  'dd/mm/yyyy': [/^(\d{1,2})\/(\d{1,2})\/(\d{4})/, 'dmy'],
  'mm/dd/yyyy': [/^(\d{1,2})\/(\d{1,2})\/(\d{4})/, 'mdy'],
};
const TIME = /^[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(?:(Z)|([+-])(\d{2}):(\d{2}))?$/;

/** Read a day, which may go on with a time, or return null for anything else. */
export function readDate(text, dates) {
  const [pattern, order] = DAYS[dates];
  const day = pattern.exec(text);
  if (!day) return null;
  const part = (letter) => Number(day[1 + order.indexOf(letter)]);
  const [year, month, date] = [part('y'), part('m'), part('d')];
  const midnight = new Date(0);
  midnight.setUTCFullYear(year, month - 1, date);
  if (year === 0 || midnight.getUTCMonth() !== month - 1 || midnight.getUTCDate() !== date) return null;
  const rest = text.slice(day[0].length);
  const start = BigInt(midnight.getTime()) * 1000n;
  return rest === '' ? start : addTime(start, TIME.exec(rest));
}

function addTime(start, time) {
  if (!time) return null;
  const [hour, minute, second = 0, aheadHours = 0, aheadMinutes = 0] = [1, 2, 3, 7, 8].map((index) => time[index] && Number(time[index]));
  if (hour > 23 || minute > 59 || second > 59 || aheadHours > 23 || aheadMinutes > 59) return null;
  const micros = BigInt((time[4] ?? '').slice(0, 6).padEnd(6, '0'));
  const ahead = (aheadHours * 60 + aheadMinutes) * (time[6] === '-' ? -1 : 1);
  return start + BigInt(((hour * 60 + minute - ahead) * 60 + second) * 1000000) + micros;
}
