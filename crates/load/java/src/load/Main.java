package load;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads and scans with the Java driver and its default load balancing, for `helenus bench assignment`.
 *
 * <p>Each line of the input is a cell: what is to be sent, as `key=value` separated by spaces. It is followed
 * by as many lines as `requests` says, each a key and a number of rows. The answer is a line of JSON. The end
 * of the input ends the program.
 */
public final class Main {
  public static void main(String[] args) throws Exception {
    Map<String, String> options = pairs(args);
    try (CqlSession session = open(options)) {
      Statements statements = new Statements(session, options.get("table"));
      Class<?> policy =
          session.getContext().getLoadBalancingPolicies().get("default").getClass();
      System.out.println("{\"policy\":\"" + policy.getSimpleName() + "\"}");
      BufferedReader input =
          new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      for (String line = input.readLine(); line != null; line = input.readLine()) {
        Map<String, String> cell = pairs(line.split(" "));
        List<Request> requests = requests(input, Integer.parseInt(cell.get("requests")));
        System.out.println(new Loop(statements, cell, requests).run());
      }
    }
  }

  private static CqlSession open(Map<String, String> options) {
    CqlSessionBuilder builder =
        CqlSession.builder().withLocalDatacenter(options.get("datacenter"));
    for (String point : options.get("contact").split(",")) {
      int colon = point.lastIndexOf(':');
      int port = Integer.parseInt(point.substring(colon + 1));
      builder.addContactPoint(new InetSocketAddress(point.substring(0, colon), port));
    }
    Duration timeout = Duration.ofMillis(Long.parseLong(options.get("timeout_ms")));
    return builder
        .withConfigLoader(
            DriverConfigLoader.programmaticBuilder()
                .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, timeout)
                .withInt(
                    DefaultDriverOption.CONNECTION_POOL_LOCAL_SIZE,
                    Integer.parseInt(options.get("connections")))
                .build())
        .build();
  }

  private static List<Request> requests(BufferedReader input, int count) throws IOException {
    List<Request> requests = new ArrayList<>(count);
    while (requests.size() < count) {
      String line = input.readLine();
      if (line == null) {
        throw new IOException("the requests end early");
      }
      int space = line.indexOf(' ');
      int rows = Integer.parseInt(line.substring(space + 1));
      requests.add(new Request(line.substring(0, space), rows));
    }
    return requests;
  }

  private static Map<String, String> pairs(String[] words) {
    Map<String, String> pairs = new HashMap<>();
    for (String word : words) {
      int equals = word.indexOf('=');
      pairs.put(word.substring(0, equals), word.substring(equals + 1));
    }
    return pairs;
  }
}
