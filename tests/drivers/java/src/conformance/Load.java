package conformance;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.context.DriverContext;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.retry.RetryDecision;
import com.datastax.oss.driver.api.core.retry.RetryPolicy;
import com.datastax.oss.driver.api.core.servererrors.CoordinatorException;
import com.datastax.oss.driver.api.core.servererrors.WriteType;
import com.datastax.oss.driver.api.core.session.Request;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/** A small closed loop with version 4 of the Java driver, until standard input ends. */
public final class Load {
  private static final int TASKS = 8;

  /** Nothing is repeated. */
  public static final class NoRetries implements RetryPolicy {
    public NoRetries(DriverContext context, String profile) {}

    @Override
    @Deprecated
    public RetryDecision onReadTimeout(
        Request request, ConsistencyLevel level, int blockFor, int received, boolean data, int retries) {
      return RetryDecision.RETHROW;
    }

    @Override
    @Deprecated
    public RetryDecision onWriteTimeout(
        Request request, ConsistencyLevel level, WriteType type, int blockFor, int received, int retries) {
      return RetryDecision.RETHROW;
    }

    @Override
    @Deprecated
    public RetryDecision onUnavailable(
        Request request, ConsistencyLevel level, int required, int alive, int retries) {
      return RetryDecision.RETHROW;
    }

    @Override
    @Deprecated
    public RetryDecision onRequestAborted(Request request, Throwable error, int retries) {
      return RetryDecision.RETHROW;
    }

    @Override
    @Deprecated
    public RetryDecision onErrorResponse(Request request, CoordinatorException error, int retries) {
      return RetryDecision.RETHROW;
    }

    @Override
    public void close() {}
  }

  public static void main(String[] args) throws Exception {
    Map<String, String> options = new HashMap<>();
    for (int n = 0; n + 1 < args.length; n += 2) {
      options.put(args[n], args[n + 1]);
    }
    int port = Integer.parseInt(options.getOrDefault("--port", "9042"));
    DriverConfigLoader config =
        DriverConfigLoader.programmaticBuilder()
            .withClass(DefaultDriverOption.RETRY_POLICY_CLASS, NoRetries.class)
            .withInt(DefaultDriverOption.CONNECTION_POOL_LOCAL_SIZE, 2)
            // As long as that of other drivers: a busy machine is no failure.
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(10))
            .build();
    Loop loop = new Loop();
    try (CqlSession session =
        CqlSession.builder()
            .addContactPoint(
                new InetSocketAddress(options.getOrDefault("--host", "127.0.0.1"), port))
            .withLocalDatacenter("datacenter1")
            .withConfigLoader(config)
            .build()) {
      for (String text : Loop.schema("load_java")) {
        session.execute(SimpleStatement.newInstance(text).setTimeout(Duration.ofSeconds(30)));
      }
      PreparedStatement write = session.prepare("INSERT INTO load_java.t (k, v) VALUES (?, ?)");
      PreparedStatement read = session.prepare("SELECT v FROM load_java.t WHERE k = ?");
      loop.run(
          TASKS,
          (key, value) -> session.execute(write.bind(key, value)),
          key -> session.execute(read.bind(key)).one().getInt(0));
    }
    System.out.println(loop);
    System.exit(0);
  }
}
