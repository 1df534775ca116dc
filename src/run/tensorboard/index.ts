export {
  experimentValue,
  histogramValue,
  scalarValue,
  sessionEndValue,
  sessionStartValue,
  summaryEvent,
  textValue,
  type HparamValue,
  type SummaryValue,
} from './events';
export { EventFile, readEvents, type StoredEvents } from './event-file';
