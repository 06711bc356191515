package conformance;

import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;

/** The common script with version 4 of the Java driver. */
public final class Main {
  public static void main(String[] args) {
    Map<String, String> options = new HashMap<>();
    for (int n = 0; n + 1 < args.length; n += 2) {
      options.put(args[n], args[n + 1]);
    }
    String name = options.getOrDefault("--name", "java");
    String host = options.getOrDefault("--host", "127.0.0.1");
    String port = options.getOrDefault("--port", "9042");
    String direct = options.getOrDefault("--direct", host + ":" + port);
    int colon = direct.lastIndexOf(':');
    String keyspace = "conf_" + name.replace('-', '_');

    Context[] context = new Context[1];
    Harness first = new Harness(name);
    first.add(
        "connect",
        () -> {
          context[0] =
              new Context(
                  keyspace,
                  new InetSocketAddress(host, Integer.parseInt(port)),
                  new InetSocketAddress(
                      direct.substring(0, colon), Integer.parseInt(direct.substring(colon + 1))),
                  Integer.parseInt(options.getOrDefault("--expect-nodes", "0")),
                  options.get("--tls-ca"));
          context[0].run("DROP KEYSPACE IF EXISTS " + keyspace);
          context[0].run(
              "CREATE KEYSPACE " + keyspace
                  + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        });
    if (first.run() > 0) {
      System.exit(1);
    }
    Harness checks = new Harness(name);
    new MetadataChecks(context[0]).addTo(checks);
    new ValueChecks(context[0]).addTo(checks);
    new StatementChecks(context[0]).addTo(checks);
    new TransportChecks(context[0]).addTo(checks);
    int failed = checks.run();
    context[0].run("DROP KEYSPACE " + keyspace);
    context[0].close();
    System.exit(failed > 0 ? 1 : 0);
  }
}
