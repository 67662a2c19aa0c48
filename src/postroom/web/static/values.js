// Writes the text of a page as a field expects it: 1.234,50 as 1234.50, 04.02.2026 as 2026-02-04.
const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const GERMAN = { mär: 2, mai: 4, okt: 9, dez: 11 };

const NUMBERS = ["amount", "price", "quantity"];

export function toValue(text, shape) {
  const trimmed = text.trim();
  if (NUMBERS.includes(shape)) return toNumber(trimmed);
  if (shape === "date") return toDate(trimmed);
  if (["iban", "vat_id", "isin"].includes(shape)) return trimmed.replace(/[\s.-]/g, "").toUpperCase();
  return trimmed.replace(/[,;:]$/, "");
}

// What a person typed, as the field expects it. What can mean two things stays: 1,234 and 02/03/2026.
export function tidy(text, shape) {
  const trimmed = text.trim();
  if (NUMBERS.includes(shape)) return CLEAR_NUMBER.test(trimmed) ? toNumber(trimmed) : text;
  if (shape === "date") return /^\d{1,2}\.\s?\d{1,2}\.\s?(\d{4}|\d{2})$/.test(trimmed) ? toDate(trimmed) : text;
  return ["iban", "vat_id", "isin"].includes(shape) ? toValue(text, shape) : text;
}

// Groups of three digits and one or two decimals: 12,34, 1.234,50, 1'234.50, 1 234,50.
const CLEAR_NUMBER = /^-?(\d+,\d{1,2}|\d{1,3}([.,'’\s])\d{3}(\2\d{3})*(?!\2)[.,]\d{1,2})$/;

// The last point or comma is the decimal separator, unless exactly three digits follow it or it repeats.
function toNumber(text) {
  const digits = text.replace(/[^\d.,'’-]/g, "").replace(/['’]/g, "");
  const [, sign, rest] = /^(-?)(.*?)-?$/.exec(digits);
  const at = Math.max(rest.lastIndexOf("."), rest.lastIndexOf(","));
  if (at < 0) return digits ? sign + rest : text;
  const separator = rest[at];
  const [before, after] = [rest.slice(0, at), rest.slice(at + 1)];
  const isGroup = before.includes(separator) || (after.length === 3 && !/[.,]/.test(before));
  const whole = before.replace(/[.,]/g, "");
  return sign + (isGroup ? whole + after : `${whole}.${after}`);
}

function toDate(text) {
  const iso = /(\d{4})-(\d{1,2})-(\d{1,2})/.exec(text);
  if (iso) return write(iso[1], iso[2], iso[3]);
  const plain = /(\d{1,2})[./\s-]+(\d{1,2})[./\s-]+(\d{4}|\d{2})\b/.exec(text);
  // In 02/28/2026 the second number can only be the day.
  if (plain) return Number(plain[2]) > 12 ? write(plain[3], plain[1], plain[2]) : write(plain[3], plain[2], plain[1]);
  const named = /\p{L}{3,}/u.exec(text);
  const numbers = text.match(/\d+/g) ?? [];
  const month = named ? (GERMAN[named[0].slice(0, 3).toLowerCase()] ?? MONTHS.indexOf(named[0].slice(0, 3).toLowerCase())) : -1;
  if (month < 0 || numbers.length !== 2) return text;
  const [day, year] = numbers[0].length === 4 ? [numbers[1], numbers[0]] : numbers;
  return write(year, month + 1, day);
}

function write(year, month, day) {
  const full = String(year).length === 2 ? `20${year}` : year;
  return `${full}-${String(month).padStart(2, "0")}-${String(day).padStart(2, "0")}`;
}
