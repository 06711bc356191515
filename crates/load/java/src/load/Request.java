package load;

/** A row to read, or to scan so many rows from. */
final class Request {
  final String key;
  final int rows;

  Request(String key, int rows) {
    this.key = key;
    this.rows = rows;
  }
}
