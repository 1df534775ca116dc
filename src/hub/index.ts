/** Models and data sets from the Hugging Face hub. */
export { fetchSnapshot, type FetchOptions, type FetchProgress, type Snapshot } from './snapshot';
export { looksLikeHubId, splitRevision } from './names';
