// @ts-check
/** Sends letters back to the topic that they came from: the chosen one, edited if need be. */
import { html, useState } from "../lib.js";
import { useGet } from "../api.js";
import { Change, Loading } from "../parts.js";
import { to } from "../router.js";
import { asBytes } from "./record.js";

/** @param {{topic: string, chosen: string}} props `chosen` is PARTITION@OFFSET, or empty. */
export default function Replay({ topic, chosen }) {
  const [isOpen, setOpen] = useState(false);
  return html`<div class="bar"><button disabled=${!chosen} title=${chosen ? "" : "Open a letter first"} onClick=${() => setOpen(true)}>Replay the open letter</button>
      <span class="muted">All letters of a flow, through a function that corrects them: <code>chronik dlq replay</code></span></div>
    ${isOpen && chosen && html`<${Form} topic=${topic} chosen=${chosen} onClose=${() => setOpen(false)} />`}`;
}

/** @param {{topic: string, chosen: string, onClose: () => void}} props */
function Form({ topic, chosen, onClose }) {
  const [partition, offset] = chosen.split("@").map(Number);
  const answer = useGet(`${to("topics", topic, "records")}/${partition}/${offset}`);
  const [text, setText] = useState(/** @type {string|null} */ (null));
  const record = answer.data?.record;
  if (!record) return html`<${Loading} />`;
  const edits = text === null ? {} : { [`${partition}:${offset}`]: { key: asBytes(record.key), value: { text } } };
  return html`<${Change} title="Replay the letter" path="${to("letters", topic)}/replay" body=${{ records: [{ partition, offset }], edits }} confirm="Replay" onClose=${onClose}>
    <p>Writes the record to the topic that it came from, so every reader of that topic gets it. The command below sends it through the flow alone.</p>
    <label class="field tall"><span>Value</span><textarea rows="10" value=${text ?? record.value?.text ?? ""} disabled=${record.value?.is_truncated || record.value?.kind === "hex"} onInput=${(event) => setText(event.target.value)}></textarea></label><//>`;
}
