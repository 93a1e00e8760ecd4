// Joins still WebP pictures to one moving WebP picture. Chromium encodes the stills; this file only writes the container:
// https://developers.google.com/speed/webp/docs/riff_container

/** A chunk: its name, its length, its bytes, and a byte that makes the length even. */
function chunk(name, body) {
  const head = Buffer.alloc(8);
  head.write(name, 0, 'latin1');
  head.writeUInt32LE(body.length, 4);
  return Buffer.concat([head, body, Buffer.alloc(body.length % 2)]);
}

function uint24(...numbers) {
  const bytes = Buffer.alloc(3 * numbers.length);
  numbers.forEach((number, at) => bytes.writeUIntLE(number, 3 * at, 3));
  return bytes;
}

/** The chunks with pixels of a still picture, as they are in its file. */
function pixels(file) {
  const found = [];
  for (let at = 12; at < file.length;) {
    const length = file.readUInt32LE(at + 4);
    const end = at + 8 + length + (length % 2);
    if (['ALPH', 'VP8 ', 'VP8L'].includes(file.toString('latin1', at, at + 4))) found.push(file.subarray(at, end));
    at = end;
  }
  return Buffer.concat(found);
}

/**
 * A moving picture that starts again at its end. Each frame has its still picture (`file`), its place (`x` and `y`, which
 * must be even), its size, and how long it is shown (`ms`). Its transparent pixels keep what was there before.
 */
export function movingWebp({ width, height, frames }) {
  const ANIMATED = 0x02;
  const TRANSPARENT = 0x10;
  const BLEND_AND_KEEP = Buffer.from([0]);
  const head = chunk('VP8X', Buffer.concat([Buffer.from([ANIMATED | TRANSPARENT, 0, 0, 0]), uint24(width - 1, height - 1)]));
  const endless = chunk('ANIM', Buffer.alloc(6));
  const body = frames.map(({ file, x, y, width, height, ms }) =>
    chunk('ANMF', Buffer.concat([uint24(x / 2, y / 2, width - 1, height - 1, ms), BLEND_AND_KEEP, pixels(file)])));
  return chunk('RIFF', Buffer.concat([Buffer.from('WEBP', 'latin1'), head, endless, ...body]));
}
