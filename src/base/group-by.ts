export type NonEmpty<Item> = [first: Item, ...rest: Item[]];

/** The items of each key, the keys in the order of their first items. */
export function groupBy<Item, Key>(
  items: Iterable<Item>,
  keyOf: (item: Item) => Key,
): Map<Key, NonEmpty<Item>> {
  const groups = new Map<Key, NonEmpty<Item>>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
