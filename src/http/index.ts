export * from './hosts';
export * from './inside';
export * from './listen';
export * from './secret';
