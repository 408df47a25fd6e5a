// Reads packs: a header and typed arrays (`pack.py` writes them and documents the format).
"use strict";

{
  const ARRAYS = { f8: Float64Array, f4: Float32Array, u4: Uint32Array, u2: Uint16Array };

  // The pack in the element with this id, or null where there is none.
  const unpack = async (id) => {
    const text = document.getElementById(id)?.textContent;
    if (!text) return null;
    const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const buffer = await new Response(stream).arrayBuffer();
    const size = new DataView(buffer).getUint32(0, true),
      first = 4 + size;
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
    header.arrays = header.arrays.map(
      ([kind, offset, length]) => new ARRAYS[kind](buffer, first + offset, length),
    );
    return header;
  };

  tcpassay.unpack = unpack;
}
