/** Parquet, whose columns are known before the first row. */
import { type ParquetFile, parquetRows } from '../../parquet';
import type { ColumnChoice, RowReader } from '../rows';

export function readParquet(label: string, file: ParquetFile, choose: ColumnChoice): RowReader {
  return {
    unit: 'row',
    async *rows() {
      let number = 0;
      for await (const values of parquetRows(label, file, choose)) yield { number: ++number, values };
    },
  };
}
