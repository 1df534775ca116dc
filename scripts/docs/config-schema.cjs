/**
 * configs/schema.json: the settings for editors, with the names of presets and rewards and the rewards'
 * parameters.
 */

const parameter = (value) => ({ type: typeof value, default: value });

/** A map of settings with some known keys. */
const named = (entries, others) => ({
  type: 'object',
  properties: Object.fromEntries(entries),
  additionalProperties: others,
});

exports.configSchemaFile = ({ configJsonSchema, PRESETS }, rewards) => {
  const { $schema, properties, ...rest } = configJsonSchema();
  const { reward, rewardParams } = properties;
  // "format" is weighted by formatWeight.
  const names = rewards.map(({ name }) => name).filter((name) => name !== 'format');
  const parameters = rewards.map(({ name, summary, defaults }) => {
    const entries = Object.entries(defaults).map(([key, value]) => [key, parameter(value)]);
    return [name, { description: summary, ...named(entries, false) }];
  });
  const schema = {
    $schema,
    title: 'acoer configuration',
    ...rest,
    properties: {
      $schema: { type: 'string', description: 'Location of this schema, for editors.' },
      preset: {
        enum: Object.keys(PRESETS),
        description: `Values to start from: ${Object.entries(PRESETS)
          .map(([name, { summary }]) => `${name}: ${summary}`)
          .join('; ')}.`,
      },
      ...properties,
      // Names of a user's own rewards are valid too.
      reward: { ...reward, anyOf: [{ enum: names }, ...reward.anyOf] },
      rewardParams: { ...rewardParams, ...named(parameters, rewardParams.additionalProperties) },
    },
  };
  return JSON.stringify(schema);
};
