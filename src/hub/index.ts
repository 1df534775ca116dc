/** Models and data sets from the Hugging Face hub. */
export { fetchSnapshot, type FetchOptions, type FetchProgress } from './snapshot';
export { looksLikeHubId, splitRevision } from './names';
