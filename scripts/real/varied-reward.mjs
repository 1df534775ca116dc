/** A reward that differs within every group: what beside-trl.mjs times, in TRL `varied` of trl_run.py. */
export default ({ text }) => text.length % 7;
