/** The bytes of another blob; it tells of each piece that the connection takes. */
export class SentBlob extends Blob {
  override readonly size: number;

  constructor(
    private readonly content: Blob,
    private readonly onPiece: () => void,
  ) {
    super([]);
    this.size = content.size;
  }

  override stream(): ReturnType<Blob['stream']> {
    const { onPiece } = this;
    return this.content.stream().pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(piece, controller) {
          onPiece();
          controller.enqueue(piece);
        },
      }),
    );
  }
}
