package conformance;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import java.net.InetSocketAddress;
import java.time.Duration;

/** One session in the driver's default configuration, and means to open others. */
final class Context implements AutoCloseable {
  static final Duration DDL_TIMEOUT = Duration.ofSeconds(30);

  final String keyspace;
  final int expectNodes;
  final CqlSession session;
  private final InetSocketAddress address;
  private final InetSocketAddress direct;

  Context(String keyspace, InetSocketAddress address, InetSocketAddress direct, int expectNodes) {
    this.keyspace = keyspace;
    this.address = address;
    this.direct = direct;
    this.expectNodes = expectNodes;
    this.session = builder().build();
  }

  CqlSessionBuilder builder() {
    return CqlSession.builder().addContactPoint(address).withLocalDatacenter("datacenter1");
  }

  CqlSession open(DriverConfigLoader loader) {
    return builder().withConfigLoader(loader).withKeyspace(keyspace).build();
  }

  /** A session behind the proxy, if the caller named the cluster itself. */
  CqlSession openDirect() {
    return CqlSession.builder().addContactPoint(direct).withLocalDatacenter("datacenter1").build();
  }

  String table(String name) {
    return keyspace + "." + name;
  }

  /** The driver waits for two seconds by default: too short for DDL on a busy test machine. */
  ResultSet run(String text, Object... values) {
    return session.execute(SimpleStatement.newInstance(text, values).setTimeout(DDL_TIMEOUT));
  }

  Row one(String text, Object... values) {
    return run(text, values).one();
  }

  @Override
  public void close() {
    session.close();
  }
}
