package load;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DefaultConsistencyLevel;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import java.util.concurrent.CompletableFuture;

/** The two statements, and what their answers must be. */
final class Statements {
  private static final int PAGE_ROWS = 5_000;

  private final CqlSession session;
  private final PreparedStatement read;
  private final PreparedStatement scan;

  Statements(CqlSession session, String table) {
    this.session = session;
    read = session.prepare("SELECT * FROM " + table + " WHERE y_id = ? LIMIT 1");
    scan = session.prepare("SELECT * FROM " + table + " WHERE token(y_id) >= token(?) LIMIT ?");
  }

  /** Ends exceptionally if the request fails or its answer is wrong. */
  CompletableFuture<Void> send(Request request, boolean isScan, DefaultConsistencyLevel level) {
    BoundStatement bound =
        isScan ? scan.bind(request.key, request.rows) : read.bind(request.key);
    return session
        .executeAsync(bound.setConsistencyLevel(level).setPageSize(PAGE_ROWS))
        .toCompletableFuture()
        .thenAccept(answer -> check(answer, request.key));
  }

  private static void check(AsyncResultSet answer, String key) {
    Row row = answer.one();
    if (row == null) {
      throw new WrongAnswer("row missing");
    }
    if (!key.equals(row.getString("y_id"))) {
      throw new WrongAnswer("wrong answer");
    }
  }

  static final class WrongAnswer extends RuntimeException {
    WrongAnswer(String what) {
      super(what);
    }
  }
}
