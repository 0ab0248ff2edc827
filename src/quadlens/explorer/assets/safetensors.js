// Reads quadlens' own files: safetensors with TransformerLens names and the config as JSON metadata.
Q.safetensors = (() => {
  const TRANSFORMER = {
    W_E: "embed.W_E", W_pos: "pos_embed.W_pos", W_V: "blocks.0.attn.W_V", b_V: "blocks.0.attn.b_V",
    W_O: "blocks.0.attn.W_O", b_O: "blocks.0.attn.b_O", W_in: "blocks.0.mlp.W_in", b_in: "blocks.0.mlp.b_in",
    W_out: "blocks.0.mlp.W_out", b_out: "blocks.0.mlp.b_out", W_U: "unembed.W_U", b_U: "unembed.b_U",
  };
  const MLP = { W_a: "mlp.W_a", W_b: "mlp.W_b", W_out: "mlp.W_out" };
  const DTYPES = { F32: [Float32Array, "<f4"], F64: [Float64Array, "<f8"] };
  // All p³ logits are held in memory as doubles; the Python side has the same limit.
  const LARGEST_P = 257, LARGEST_NEURONS = 8192;

  class BadFile extends Error {}

  /** {config, tensors} of a Uint8Array; throws BadFile with what came, what was expected and what to do. */
  function read(bytes) {
    const { header, start } = readHeader(bytes);
    const metadata = header.__metadata__ || {};
    if (typeof metadata.quadlens !== "string")
      throw new BadFile("This safetensors file has no quadlens config in its metadata. Turn other people's checkpoints into ours with: quadlens import FILE -o MODEL.safetensors");
    const { config, checksum, text } = readMetadata(metadata.quadlens);
    const raw = readTensors(header, bytes, start);
    if (checksum !== undefined && text !== null && checksum !== checksumOf(raw, text))
      throw new BadFile("The file is damaged: its weights or config do not match its checksum. Get the file again.");
    checkConfig(config);
    const names = config.architecture === "transformer" ? TRANSFORMER : MLP;
    const shapes = config.architecture === "transformer" ? transformerShapes(config) : mlpShapes(config);
    const tensors = {};
    for (const [short, long] of Object.entries(names)) {
      const tensor = raw[long];
      if (!tensor) throw new BadFile(`The tensor ${long} is missing; expected one of a quadlens ${config.architecture}.`);
      if (tensor.shape.join() !== shapes[short].join())
        throw new BadFile(`${long} has shape [${tensor.shape}], expected [${shapes[short]}].`);
      if (!finite(tensor.data)) throw new BadFile(`${long} holds numbers that are not finite.`);
      tensors[short] = new Float64Array(tensor.data);
    }
    return { config, tensors };
  }

  function finite(x) {
    for (let j = 0; j < x.length; j++) if (!Number.isFinite(x[j])) return false;
    return true;
  }

  function readHeader(bytes) {
    const cut = "This is not a safetensors file, or it is cut short. Expected a model that quadlens wrote (quadlens train, build or import).";
    if (bytes.length < 8) throw new BadFile(cut);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const length = view.getUint32(0, true);
    if (view.getUint32(4, true) !== 0 || 8 + length > bytes.length) throw new BadFile(cut);
    let header;
    try {
      header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, 8 + length)));
    } catch {
      throw new BadFile(cut);
    }
    if (header === null || typeof header !== "object" || Array.isArray(header)) throw new BadFile(cut);
    return { header, start: 8 + length };
  }

  function readMetadata(json) {
    let parsed;
    try {
      parsed = JSON.parse(json);
    } catch {
      throw new BadFile("The quadlens metadata of this file is not JSON; it was not written by quadlens.");
    }
    if (!parsed || parsed.format !== 1) throw new BadFile(`File format ${parsed && parsed.format}; this page reads format 1. Make a page with the newer quadlens.`);
    // The checksum covers the config's text as Python wrote it (1.0 is not 1), so take that very text.
    const found = /"config": (\{.*\}), "format": 1\}$/s.exec(json);
    return { config: parsed.config || {}, checksum: parsed.checksum, text: found ? found[1] : null };
  }

  function readTensors(header, bytes, start) {
    const tensors = {};
    for (const [name, entry] of Object.entries(header)) {
      if (name === "__metadata__") continue;
      const kind = DTYPES[entry.dtype];
      if (!kind) throw new BadFile(`${name} has type ${entry.dtype}, expected F32 or F64.`);
      const [from, to] = entry.data_offsets || [];
      const count = (entry.shape || []).reduce((x, y) => x * y, 1);
      if (!(from >= 0 && to - from === count * kind[0].BYTES_PER_ELEMENT && start + to <= bytes.length))
        throw new BadFile(`The file is cut short or damaged at ${name}. Get the file again.`);
      const raw = bytes.slice(start + from, start + to);
      tensors[name] = { shape: entry.shape, dtype: kind[1], raw, data: new kind[0](raw.buffer) };
    }
    return tensors;
  }

  /** As quadlens.model.native: config, then name, dtype, shape and bytes of each tensor by name. */
  function checksumOf(tensors, configText) {
    const encoder = new TextEncoder();
    const pieces = [encoder.encode(configText)];
    for (const name of Object.keys(tensors).sort()) {
      const { dtype, shape, raw } = tensors[name];
      const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
      pieces.push(encoder.encode(`${name} ${dtype} ${tuple}`), raw);
    }
    const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    return Q.sha256.hex(all);
  }

  function checkConfig(config) {
    if (!["transformer", "mlp"].includes(config.architecture))
      throw new BadFile(`Architecture ${config.architecture}; expected transformer or mlp.`);
    const { p, d_mlp } = config;
    if (!(Number.isInteger(p) && p >= 3 && p % 2 === 1)) throw new BadFile(`p = ${p}; expected an odd modulus of at least 3.`);
    if (p > LARGEST_P) throw new BadFile(`p = ${p}; this page holds all p³ logits and takes at most p = ${LARGEST_P}.`);
    if (!(d_mlp >= 1 && d_mlp <= LARGEST_NEURONS)) throw new BadFile(`d_mlp = ${d_mlp}; this page takes 1 to ${LARGEST_NEURONS} neurons.`);
    if (!["relu", "abs", "square"].includes(config.activation)) throw new BadFile(`Activation ${config.activation}; expected relu, abs or square.`);
  }

  function transformerShapes(c) {
    const { d_model: d, d_mlp: m, n_heads: h, d_head: dh } = c;
    return {
      W_E: [c.d_vocab, d], W_pos: [c.n_ctx, d], W_V: [h, d, dh], b_V: [h, dh], W_O: [h, dh, d], b_O: [d],
      W_in: [d, m], b_in: [m], W_out: [m, d], b_out: [d], W_U: [d, c.d_vocab_out], b_U: [c.d_vocab_out],
    };
  }

  function mlpShapes(c) {
    return { W_a: [c.p, c.d_mlp], W_b: [c.p, c.d_mlp], W_out: [c.d_mlp, c.p] };
  }

  return { read, BadFile };
})();
