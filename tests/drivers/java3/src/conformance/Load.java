package conformance;

import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.HostDistance;
import com.datastax.driver.core.PoolingOptions;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.SimpleStatement;
import com.datastax.driver.core.policies.FallthroughRetryPolicy;
import java.util.HashMap;
import java.util.Map;

/** A small closed loop with version 3 of the Java driver, until standard input ends. */
public final class Load {
  private static final int TASKS = 8;

  public static void main(String[] args) throws Exception {
    Map<String, String> options = new HashMap<>();
    for (int n = 0; n + 1 < args.length; n += 2) {
      options.put(args[n], args[n + 1]);
    }
    PoolingOptions pool = new PoolingOptions().setConnectionsPerHost(HostDistance.LOCAL, 2, 2);
    Loop loop = new Loop();
    try (Cluster cluster =
            Cluster.builder()
                .addContactPoint(options.getOrDefault("--host", "127.0.0.1"))
                .withPort(Integer.parseInt(options.getOrDefault("--port", "9042")))
                .withRetryPolicy(FallthroughRetryPolicy.INSTANCE)
                .withPoolingOptions(pool)
                .withoutJMXReporting()
                .build();
        Session session = cluster.connect()) {
      for (String text : Loop.schema("load_java3")) {
        session.execute(new SimpleStatement(text).setReadTimeoutMillis(30_000));
      }
      PreparedStatement write = session.prepare("INSERT INTO load_java3.t (k, v) VALUES (?, ?)");
      PreparedStatement read = session.prepare("SELECT v FROM load_java3.t WHERE k = ?");
      loop.run(
          TASKS,
          (key, value) -> session.execute(write.bind(key, value)),
          key -> session.execute(read.bind(key)).one().getInt(0));
    }
    System.out.println(loop);
    System.exit(0);
  }
}
