// Reads quadlens' own files as strictly as Python does: safetensors with TransformerLens names, the config as JSON metadata.
// Which fields and tensors there are, and of what shapes, Python says in `Q.layout` (layout.py).
Q.safetensors = (() => {
  const TASK_TABLE = "task.answers";
  const DTYPES = { F32: [Float32Array, "<f4"], F64: [Float64Array, "<f8"], I32: [Int32Array, "<i4"] };
  const CUT = "This is not a safetensors file, or it is cut short. Expected a model that quadlens wrote (quadlens train, build or import).";
  const DAMAGED = "Get the file again.";

  class BadFile extends Error {}

  function need(condition, words) {
    if (!condition) throw new BadFile(words);
  }

  /** {config, task, tensors} of a Uint8Array; throws BadFile with what came, what was expected and what to do. */
  function read(bytes) {
    const { header, start } = readHeader(bytes);
    const metadata = header.get("__metadata__");
    header.delete("__metadata__");
    need(metadata instanceof Map && typeof metadata.get("quadlens") === "string",
      "This safetensors file has no quadlens config in its metadata. Turn other people's checkpoints into ours with: quadlens import FILE -o MODEL.safetensors");
    const about = parsed(metadata.get("quadlens"), "the quadlens metadata");
    const format = about instanceof Map ? about.get("format") : undefined;
    need(format === 1n, `File format ${format}; this page reads format 1. Make a page with the quadlens that wrote the file.`);
    need([...about.keys()].sort().join() === "checksum,config,format", `The quadlens metadata has the keys ${[...about.keys()].sort().join(", ")}; expected checksum, config, format.`);
    const raw = readTensors(header, bytes, start);
    need(about.get("checksum") === checksumOf(raw, Q.strictJson.pythonText(about.get("config"))),
      `The file is damaged: its weights or config do not match its checksum. ${DAMAGED}`);
    const config = readConfig(about.get("config"));
    const task = readTask(config, raw);
    return { config, task, tensors: checkTensors(config, raw) };
  }

  function parsed(text, what) {
    try {
      return Q.strictJson.parse(text);
    } catch (error) {
      throw new BadFile(`In ${what}: ${error.message}. Quadlens did not write this file; make it again with quadlens import.`);
    }
  }

  function readHeader(bytes) {
    need(bytes.length >= 8, CUT);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), length = view.getUint32(0, true);
    need(view.getUint32(4, true) === 0 && 8 + length <= bytes.length && bytes[8] === 0x7b, CUT);
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, 8 + length));
    } catch {
      throw new BadFile(CUT);
    }
    return { header: parsed(text, "the header"), start: 8 + length };
  }

  const isSize = (x) => typeof x === "bigint" && x >= 0n && x <= BigInt(Number.MAX_SAFE_INTEGER);

  /** Tensors in the order of their bytes, which follow one another without a gap up to the end of the file. */
  function readTensors(header, bytes, start) {
    const entries = [...header].map(([name, entry]) => {
      need(entry instanceof Map && [...entry.keys()].sort().join() === "data_offsets,dtype,shape", `${name} in the header is not a tensor with dtype, shape and data_offsets. ${DAMAGED}`);
      const shape = entry.get("shape"), offsets = entry.get("data_offsets"), kind = DTYPES[entry.get("dtype")];
      need(kind && (kind[0] === Int32Array) === (name === TASK_TABLE), `${name} has type ${entry.get("dtype")}, expected ${name === TASK_TABLE ? "I32" : "F32 or F64"}.`);
      need(Array.isArray(shape) && shape.every(isSize) && Array.isArray(offsets) && offsets.length === 2 && offsets.every(isSize), `${name} has a shape or place in the file that is not made of whole numbers. ${DAMAGED}`);
      return { name, kind, shape: shape.map(Number), from: Number(offsets[0]), to: Number(offsets[1]) };
    });
    entries.sort((x, y) => x.from - y.from || x.to - y.to);
    const tensors = new Map();
    let end = 0;
    for (const { name, kind, shape, from, to } of entries) {
      const size = shape.reduce((x, y) => x * y, kind[0].BYTES_PER_ELEMENT);
      need(from === end && to - from === size && start + to <= bytes.length, `The file is cut short or damaged at ${name}. ${DAMAGED}`);
      const raw = bytes.slice(start + from, start + to);
      tensors.set(name, { shape, dtype: kind[1], raw, data: new kind[0](raw.buffer) });
      end = to;
    }
    need(start + end === bytes.length, `The file has ${bytes.length - start - end} bytes that belong to no tensor. ${DAMAGED}`);
    return tensors;
  }

  /** As quadlens.network.native: config, then name, dtype, shape and bytes of each tensor by name. */
  function checksumOf(tensors, configText) {
    const encoder = new TextEncoder(), pieces = [encoder.encode(configText)];
    for (const name of [...tensors.keys()].sort()) {
      const { dtype, shape, raw } = tensors.get(name);
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

  /** The config as a plain object, with the checks of quadlens.network.config. */
  function readConfig(data) {
    need(data instanceof Map, "The config is not an object with names and values.");
    const { architectures } = Q.layout, architecture = data.get("architecture");
    need(Object.hasOwn(architectures, architecture), `Architecture ${architecture}; expected ${Object.keys(architectures).join(" or ")}.`);
    const { fields } = architectures[architecture], names = fields.map(({ name }) => name), config = { architecture };
    for (const key of data.keys()) need(key === "architecture" || names.includes(key), `The config has the unknown key ${key}; known keys: ${names.join(", ")}.`);
    for (const field of fields) {
      need(data.has(field.name) || "default" in field, `The config lacks the key ${field.name}.`);
      config[field.name] = data.has(field.name) ? readField(field, data.get(field.name)) : field.default;
    }
    checkConfig(config);
    if (architecture === "transformer") checkTransformer(config);
    return config;
  }

  /** The value of a field; how it is read is `reader` of the layout. */
  function readField({ name, reader, default: usual }, value) {
    if (reader === "default") {
      const text = Q.strictJson.pythonText(value);
      need(text === usual, `The config has ${name} = ${text}; this page runs one layer without norms, where ${name} is ${usual}. quadlens report shows such a model.`);
      return usual;
    }
    return READERS[reader](value, name);
  }

  const READERS = {
    whole: (value, name) => {
      need(typeof value === "bigint", `${name} = ${typeof value === "object" ? "something else" : value}; expected a whole number.`);
      return Number(value);
    },
    flag: (value, name) => {
      need(typeof value === "boolean", `${name} is neither true nor false.`);
      return value;
    },
    numbers: (value, name) => {
      need(Array.isArray(value) && value.every((x) => typeof x === "number" || typeof x === "bigint"), `${name} is not a list of numbers.`);
      return value.map(Number);
    },
    activation: (value) => {
      need(Q.activations.NAMES.includes(value), `Activation ${value}; expected ${Q.activations.NAMES.join(", ")}.`);
      return value;
    },
    softmax: readSoftmax,
    task: (value) => {
      const named = value instanceof Map && [...value.keys()].sort().join() === "name,sha256" && typeof value.get("name") === "string";
      need(typeof value === "string" || named, "The task is neither a name nor a name with the SHA-256 of a table.");
      return value;
    },
  };

  /** {scale, divisor, causal}, or null where attention is constant. */
  function readSoftmax(value) {
    if (value === null) return null;
    need(value instanceof Map, "softmax is not an object with scale, divisor and causal.");
    for (const key of value.keys()) need(["scale", "divisor", "causal"].includes(key), `softmax has the unknown key ${key}; known keys: scale, divisor, causal.`);
    const [scale, divisor] = ["scale", "divisor"].map((key) => {
      need(["number", "bigint"].includes(typeof value.get(key)), `${key} of softmax is not a number.`);
      return Number(value.get(key));
    });
    const causal = value.has("causal") ? value.get("causal") : true;
    need(typeof causal === "boolean", "causal of softmax is neither true nor false.");
    need(Number.isFinite(scale) && scale !== 0, `Softmax times ${scale}; expected a finite number other than 0.`);
    need(Number.isFinite(divisor) && divisor > 0, `Attention scores divided by ${divisor}; expected a finite number above 0.`);
    return { scale, divisor, causal };
  }

  /** The task with its answers; a table that comes with the file is taken out of its tensors. */
  function readTask({ task, p }, raw) {
    if (typeof task === "string") return Q.task.byFormula(task, p, need);
    const table = raw.get(TASK_TABLE), name = task.get("name");
    need(table && table.shape.join() === `${p},${p}`, `The table of the task ${name} is missing or not ${p} × ${p}.`);
    raw.delete(TASK_TABLE);
    const found = Q.task.byTable(name, p, table.data, need);
    need(task.get("sha256") === Q.sha256.hex(table.raw), `The table of the task ${name} is not the one whose SHA-256 is given.`);
    return found;
  }

  function checkConfig({ p, d_mlp }) {
    need(p >= 2, `p = ${p}; expected at least 2 elements.`);
    const { largest } = Q.layout;
    need(p <= largest.p, `p = ${p}; this page holds all p³ logits and takes at most p = ${largest.p}.`);
    need(d_mlp >= 1 && d_mlp <= largest.d_mlp, `d_mlp = ${d_mlp}; this page takes 1 to ${largest.d_mlp} neurons.`);
  }

  function checkTransformer(c) {
    const fed = c.attention.length, used = c.b_token_offset + c.p + (fed === 3 ? 1 : 0);
    for (const name of ["d_model", "n_heads", "d_head"]) need(c[name] >= 1, `${name} = ${c[name]}; expected at least 1.`);
    need(fed === 2 || fed === 3, `attention has ${fed} weights; expected one for each of (a, b) or (a, b, '=').`);
    need(c.attention.every(Number.isFinite), "The attention weights are not all finite.");
    need(c.read_position >= 0 && c.read_position < fed, `read_position = ${c.read_position} is not fed; expected 0 … ${fed - 1}.`);
    need(c.n_ctx >= fed, `n_ctx = ${c.n_ctx} is less than the ${fed} positions fed.`);
    need(c.b_token_offset === 0 || c.b_token_offset === c.p, `b_token_offset = ${c.b_token_offset}; expected 0 or p = ${c.p}.`);
    need(c.d_vocab >= used, `d_vocab = ${c.d_vocab} is less than the ${used} tokens used.`);
    need(c.d_vocab_out >= c.p, `d_vocab_out = ${c.d_vocab_out} is less than p = ${c.p}.`);
  }

  function checkTensors(config, raw) {
    // Some come with an option, as biases of an MLP do.
    const expected = Q.layout.architectures[config.architecture].tensors.filter(({ option }) => option === null || config[option]);
    const tensors = {}, known = expected.map(({ file }) => file);
    for (const name of raw.keys()) need(known.includes(name), `The tensor ${name} does not belong to a quadlens ${config.architecture}.`);
    for (const { name, file, shape } of expected) {
      const tensor = raw.get(file), sizes = shape.map((size) => config[size]);
      need(tensor, `The tensor ${file} is missing; expected one of a quadlens ${config.architecture}.`);
      need(tensor.shape.join() === sizes.join(), `${file} has shape [${tensor.shape}], expected [${sizes}].`);
      need(tensor.data.every(Number.isFinite), `${file} holds numbers that are not finite.`);
      tensors[name] = new Float64Array(tensor.data);
    }
    return tensors;
  }

  return { read, BadFile };
})();
