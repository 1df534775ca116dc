/** Models and data sets from the Hugging Face hub, and models to it. */
export { fetchSnapshot, type FetchOptions, type FetchProgress } from './snapshot';
export { looksLikeHubId, splitRevision } from './names';
export { pushFiles, type Pushed, type PushedFile, type PushOptions, pushTarget } from './push';
