package io.helenus.agent;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tells proxies what the node uses, over a port of its own: requests for it never wait behind those that it
 * tells of. One thread does everything.
 */
final class Reporter implements Runnable
{
    private static final Logger logger = LoggerFactory.getLogger(Reporter.class);

    private static final long ANSWER_WITHIN_NANOS = TimeUnit.SECONDS.toNanos(3);
    /** How often something is measured while nobody is connected. */
    private static final long IDLE_NANOS = TimeUnit.SECONDS.toNanos(1);
    /** How long whoever reads the table is taken to read it again. */
    private static final long READ_AGAIN_NANOS = TimeUnit.SECONDS.toNanos(30);
    /** Enough for dozens of reports: a proxy that reads none soon has it full. */
    private static final int SEND_BUFFER = 4_096;
    private static final long COMPLAINT_EVERY_NANOS = TimeUnit.MINUTES.toNanos(1);
    private static final long AGAIN_AFTER_MS = 10_000;
    private static final long START_PATIENCE_NANOS = TimeUnit.MINUTES.toNanos(10);

    private final Settings settings;
    private final Supplier<ResourceSampler> samplers;
    private final Supplier<InetAddress> usualAddress;
    private final SecureRandom random = new SecureRandom();
    private final List<ReportPeer> peers = new ArrayList<>();
    private volatile ResourceSampler sampler;
    private volatile int port;
    /** When the table was read last, by {@link System#nanoTime}. */
    private volatile long readNanos = System.nanoTime() - READ_AGAIN_NANOS;
    private long complainedNanos = System.nanoTime() - COMPLAINT_EVERY_NANOS;

    /** {@code samplers}, {@code usualAddress}: asked once the node has started. */
    Reporter(Settings settings, Supplier<ResourceSampler> samplers, Supplier<InetAddress> usualAddress)
    {
        this.settings = settings;
        this.samplers = samplers;
        this.usualAddress = usualAddress;
    }

    void start()
    {
        Thread thread = new Thread(this, "helenus-reports");
        thread.setDaemon(true);
        thread.start();
    }

    Resources latest()
    {
        ResourceSampler measuring = sampler;
        readNanos = System.nanoTime();
        return measuring == null ? null : measuring.latest();
    }

    /** Where it listens; 0 while it does not. */
    int port()
    {
        return port;
    }

    @Override
    public void run()
    {
        String complaint = null;
        while (true)
        {
            try
            {
                // Its classes must not be touched by another thread while the node starts.
                awaitNode();
                serve();
                return;
            }
            catch (InterruptedException stop)
            {
                return;
            }
            catch (Throwable reason)
            {
                // Without reports the node is as good as before. The same reason again is no news.
                if (!reason.toString().equals(complaint))
                    logger.warn("Helenus agent: no reports of this node's resources: {}", reason.toString());
                logger.debug("Helenus agent: no reports", reason);
                complaint = reason.toString();
            }
            finally
            {
                sampler = null;
                port = 0;
            }
            // A port may become free, and a secret may still be written.
            if (!pause(AGAIN_AFTER_MS))
                return;
        }
    }

    private static void awaitNode() throws JMException, InterruptedException
    {
        MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
        ObjectName node = new ObjectName("org.apache.cassandra.db:type=StorageService");
        long beginNanos = System.nanoTime();
        boolean hasComplained = false;
        while (!beans.isRegistered(node) || !Boolean.TRUE.equals(beans.getAttribute(node, "Initialized")))
        {
            Thread.sleep(200);
            if (!hasComplained && System.nanoTime() - beginNanos > START_PATIENCE_NANOS)
            {
                hasComplained = true;
                logger.info("Helenus agent: no reports before this node has started");
            }
        }
    }

    void serve() throws Exception
    {
        ReportSecret secret = new ReportSecret(settings.reportSecretFile);
        InetAddress address = settings.reportAddress == null ? usualAddress.get()
                                                             : InetAddress.getByName(settings.reportAddress);
        if (!secret.isSet() && !address.isLoopbackAddress())
            throw new IOException(address.getHostAddress() + " is not loopback: set -D" + Settings.REPORT_SECRET_FILE
                                  + " to share a secret with the proxies, or -D" + Settings.REPORT_PORT + "=0");
        ResourceSampler measuring = samplers.get();
        try (Selector selector = Selector.open(); ServerSocketChannel server = ServerSocketChannel.open())
        {
            server.setOption(StandardSocketOptions.SO_REUSEADDR, true);
            server.bind(new InetSocketAddress(address, settings.reportPort));
            server.configureBlocking(false);
            server.register(selector, SelectionKey.OP_ACCEPT);
            port = server.socket().getLocalPort();
            sampler = measuring;
            logger.info("Helenus agent: reports this node's resources on {}:{}, {}", address.getHostAddress(), port,
                        secret.isSet() ? "to those that know the secret" : "without a secret");
            serve(selector, server, secret, measuring);
        }
        finally
        {
            for (ReportPeer peer : peers)
                peer.close();
            peers.clear();
        }
    }

    private void serve(Selector selector, ServerSocketChannel server, ReportSecret secret, ResourceSampler measuring)
        throws IOException
    {
        long dueNanos = System.nanoTime();
        while (!Thread.currentThread().isInterrupted())
        {
            long waitNanos = dueNanos - System.nanoTime();
            // Rounded up: with what is left of a millisecond it would spin.
            if (waitNanos > 0)
                selector.select(TimeUnit.NANOSECONDS.toMillis(waitNanos) + 1);
            else
                selector.selectNow();
            for (SelectionKey key : selector.selectedKeys())
            {
                if (key.attachment() instanceof ReportPeer)
                    hear((ReportPeer) key.attachment());
                else
                    accept(selector, server, secret);
            }
            selector.selectedKeys().clear();
            long nowNanos = System.nanoTime();
            if (nowNanos - dueNanos < 0)
                continue;
            boolean isHeard = nowNanos - readNanos < READ_AGAIN_NANOS;
            for (ReportPeer peer : peers)
                isHeard |= peer.isTrusted();
            Resources resources = measuring.sample(isHeard);
            for (ReportPeer peer : List.copyOf(peers))
            {
                if (peer.isTrusted())
                    tell(peer, resources);
                else if (nowNanos - peer.acceptedNanos > ANSWER_WITHIN_NANOS)
                    end(peer);
            }
            long intervalNanos = TimeUnit.MILLISECONDS.toNanos(settings.reportIntervalMs);
            // After a pause of the process there is one report, not all that were missed.
            dueNanos = System.nanoTime() + (!peers.isEmpty() ? intervalNanos : IDLE_NANOS);
        }
    }

    private void accept(Selector selector, ServerSocketChannel server, ReportSecret secret)
    {
        SocketChannel channel;
        try
        {
            channel = server.accept();
        }
        catch (IOException failed)
        {
            // Usually "too many open files": an immediate retry would only spin.
            pause(20);
            return;
        }
        if (channel == null)
            return;
        byte[] nonce = new byte[ReportProtocol.NONCE];
        random.nextBytes(nonce);
        ReportPeer peer = new ReportPeer(channel, secret.current(), nonce, System.nanoTime());
        if (peers.size() >= settings.reportConnectionsMax && !makeRoom())
        {
            peer.close();
            complain("there are as many as -D" + Settings.REPORT_CONNECTIONS_MAX + " says");
            return;
        }
        peers.add(peer);
        try
        {
            channel.configureBlocking(false);
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            channel.setOption(StandardSocketOptions.SO_SNDBUF, SEND_BUFFER);
            channel.register(selector, SelectionKey.OP_READ, peer);
            peer.greet(secret.isSet(), settings.reportIntervalMs);
        }
        catch (IOException broken)
        {
            end(peer);
        }
    }

    /** False if interrupted. */
    private static boolean pause(long millis)
    {
        try
        {
            Thread.sleep(millis);
            return true;
        }
        catch (InterruptedException stop)
        {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    /** Ends the oldest connection that has proved nothing; false if there is none. */
    private boolean makeRoom()
    {
        for (ReportPeer peer : peers)
        {
            if (peer.isTrusted())
                continue;
            end(peer);
            return true;
        }
        return false;
    }

    private void hear(ReportPeer peer)
    {
        try
        {
            peer.read();
        }
        catch (ReportPeer.Ended ended)
        {
            end(peer);
            if (ended.isRefusal)
                complain(ended.getMessage());
        }
        catch (Exception broken)
        {
            end(peer);
        }
    }

    private void complain(String why)
    {
        if (System.nanoTime() - complainedNanos <= COMPLAINT_EVERY_NANOS)
            return;
        complainedNanos = System.nanoTime();
        logger.warn("Helenus agent: a connection for reports was refused: {}", why);
    }

    private void tell(ReportPeer peer, Resources resources)
    {
        try
        {
            peer.report(resources, settings.reportIntervalMs);
        }
        catch (Exception broken)
        {
            end(peer);
        }
    }

    private void end(ReportPeer peer)
    {
        peer.close();
        peers.remove(peer);
    }
}
