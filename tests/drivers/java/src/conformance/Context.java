package conformance;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** One session in the driver's default configuration, and means to open others. */
final class Context implements AutoCloseable {
  static final Duration DDL_TIMEOUT = Duration.ofSeconds(30);

  final String keyspace;
  final int expectNodes;
  final CqlSession session;
  private final InetSocketAddress address;
  private final InetSocketAddress direct;

  /** Null for plain text. */
  private final SSLContext tls;

  Context(
      String keyspace,
      InetSocketAddress address,
      InetSocketAddress direct,
      int expectNodes,
      String authority)
      throws Exception {
    this.keyspace = keyspace;
    this.address = address;
    this.direct = direct;
    this.expectNodes = expectNodes;
    this.tls = authority == null ? null : trusting(Path.of(authority));
    this.session = builder().build();
  }

  CqlSessionBuilder builder() {
    CqlSessionBuilder builder =
        CqlSession.builder().addContactPoint(address).withLocalDatacenter("datacenter1");
    return tls == null ? builder : builder.withSslContext(tls);
  }

  /** Settings that trust the authority in a PEM file. */
  private static SSLContext trusting(Path authority) throws Exception {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    try (InputStream pem = Files.newInputStream(authority)) {
      store.setCertificateEntry(
          "authority", CertificateFactory.getInstance("X.509").generateCertificate(pem));
    }
    TrustManagerFactory trust =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, trust.getTrustManagers(), null);
    return context;
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
