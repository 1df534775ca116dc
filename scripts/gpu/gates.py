"""What a card must reach: shares of the limit that was measured in the same run (issue "GPU path", docs/gpu.md)."""

DECODE, TRAINING = 'decode', 'training'

# By class of card: (what, rows, context, least share of the limit).
GATES = {
    'A6000': [(DECODE, 16, 1024, .60), (TRAINING, None, None, .50)],
    'H100': [(DECODE, 16, 1024, .35), (DECODE, 96, 4096, .55)],
}
# Cards of one class have like ratios of bandwidth, matmul rate and launch costs.
CLASS_OF_CAPABILITY = {'8.6': 'A6000', '8.9': 'A6000', '9.0': 'H100'}


def class_of(card):
    return CLASS_OF_CAPABILITY.get(card.get('computeCapability', ''))


def judge(card, decode, training):
    """`decode`: {(rows, context): share or None}; `training`: share or None. A list of {gate, required, measured,
    result: pass, fail or "not judged", reason}."""
    kind = class_of(card)
    judged = []
    for name, gates in GATES.items():
        for what, rows, context, required in gates:
            text = f'{name}-class: {what}' + (f' {rows} x {context:,}' if rows else '')
            measured = training if what == TRAINING else decode.get((rows, context))
            gate = {'gate': text, 'required': required, 'measured': None, 'result': 'not judged', 'reason': None}
            if kind != name:
                gate['reason'] = 'another class of card' if kind else 'no GPU of a class that has gates'
            elif measured is None:
                gate['reason'] = 'not measured'
            else:
                gate.update(measured=measured, result='pass' if measured >= required else 'fail')
            judged.append(gate)
    return judged
