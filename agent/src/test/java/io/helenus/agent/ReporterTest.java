package io.helenus.agent;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.Random;

import org.apache.cassandra.concurrent.ImmediateExecutor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(30)
class ReporterTest
{
    private static final int CONNECTIONS_MAX = 100;
    private static final String ID = "01234567-89ab-cdef-0123-456789abcdef";

    @TempDir
    Path folder;
    private final List<Thread> running = new ArrayList<>();

    @AfterEach
    void stop() throws InterruptedException
    {
        for (Thread thread : running)
        {
            thread.interrupt();
            thread.join();
        }
    }

    private static ResourceSampler sampler()
    {
        ResourceSampler sampler = new ResourceSampler(
            new ResourceSampler.Node(ImmediateExecutor.INSTANCE,
                                     ImmediateExecutor.INSTANCE,
                                     () -> 3,
                                     () -> ID,
                                     new String[] { "." }));
        // They are estimated in a thread of their own.
        while (sampler.sample(true).compactionsPending != 3)
            Thread.onSpinWait();
        return sampler;
    }

    @Test
    void reportsDoNotWaitForAnEstimateOfCompactions() throws Exception
    {
        CountDownLatch lock = new CountDownLatch(1);
        ResourceSampler sampler = new ResourceSampler(
            new ResourceSampler.Node(ImmediateExecutor.INSTANCE,
                                     ImmediateExecutor.INSTANCE,
                                     () -> {
                                         try
                                         {
                                             lock.await();
                                         }
                                         catch (InterruptedException ended)
                                         {
                                             return 0;
                                         }
                                         return 7;
                                     },
                                     () -> ID,
                                     new String[] { "." }));
        assertEquals(Resources.UNKNOWN_TASKS, sampler.sample(true).compactionsPending);
        lock.countDown();
        while (sampler.sample(true).compactionsPending != 7)
            Thread.onSpinWait();
    }

    @Test
    void nobodyIsAskedForCompactionsWhileNobodyListens()
    {
        AtomicInteger asked = new AtomicInteger();
        Set<Thread> askers = ConcurrentHashMap.newKeySet();
        ResourceSampler sampler = new ResourceSampler(
            new ResourceSampler.Node(ImmediateExecutor.INSTANCE,
                                     ImmediateExecutor.INSTANCE,
                                     () -> {
                                         askers.add(Thread.currentThread());
                                         return asked.incrementAndGet();
                                     },
                                     () -> ID,
                                     new String[] { "." }));
        assertEquals(Resources.UNKNOWN_TASKS, sampler.sample(false).compactionsPending);
        // Nothing was begun, so nothing has to be waited for: the next estimate is the first.
        while (sampler.sample(true).compactionsPending != 1)
            Thread.onSpinWait();
        assertEquals(1, asked.get());
        // It holds for a while.
        for (int i = 0; i < 1_000; i++)
            assertEquals(1, sampler.sample(true).compactionsPending);
        assertEquals(1, askers.size());
    }

    @Test
    void aNodeThatCannotTellOfCompactionsIsStillMeasured()
    {
        for (Throwable failure : new Throwable[] { new AssertionError("dropped"), new IllegalStateException("closed") })
        {
            ResourceSampler sampler = new ResourceSampler(
                new ResourceSampler.Node(ImmediateExecutor.INSTANCE,
                                         ImmediateExecutor.INSTANCE,
                                         () -> {
                                             if (failure instanceof Error)
                                                 throw (Error) failure;
                                             throw (RuntimeException) failure;
                                         },
                                         () -> ID,
                                         new String[] { "." }));
            Resources resources = sampler.sample(true);
            assertEquals(Resources.UNKNOWN_TASKS, resources.compactionsPending);
            assertEquals(ID, resources.hostId.toString());
        }
    }

    private int start(byte[] secret) throws Exception
    {
        Map<String, String> properties = new HashMap<>();
        properties.put(Settings.REPORT_PORT, "0");
        properties.put(Settings.REPORT_INTERVAL_MS, "50");
        properties.put(Settings.REPORT_CONNECTIONS_MAX, Integer.toString(CONNECTIONS_MAX));
        if (secret != null)
        {
            Path file = folder.resolve("secret");
            Files.write(file, secret);
            properties.put(Settings.REPORT_SECRET_FILE, file.toString());
        }
        Reporter reporter = new Reporter(new Settings(properties::get), ReporterTest::sampler,
                                         InetAddress::getLoopbackAddress);
        Thread thread = new Thread(() -> {
            try
            {
                reporter.serve();
            }
            catch (Exception ended)
            {
                // Interrupted at the end of the test.
            }
        });
        running.add(thread);
        thread.start();
        while (reporter.port() == 0)
            Thread.sleep(5);
        return reporter.port();
    }

    private static Socket connect(int port) throws IOException
    {
        return new Socket(InetAddress.getLoopbackAddress(), port);
    }

    /** The agent's nonce. */
    private static byte[] greeted(DataInputStream in) throws IOException
    {
        ByteBuffer greeting = ByteBuffer.wrap(in.readNBytes(ReportProtocol.GREETING));
        assertEquals(ReportProtocol.MAGIC, greeting.getInt());
        assertEquals(ReportProtocol.VERSION, greeting.get());
        byte[] nonce = new byte[ReportProtocol.NONCE];
        greeting.position(8).get(nonce);
        return nonce;
    }

    private static void receiveReports(int port, byte[] secret, int count) throws Exception
    {
        try (Socket socket = connect(port))
        {
            DataInputStream in = new DataInputStream(socket.getInputStream());
            byte[] agent = greeted(in);
            byte[] proxy = ReportProtocolTest.nonce(7);
            socket.getOutputStream().write(ReportProtocolTest.answer(secret, agent, proxy).array());
            byte[] proof = in.readNBytes(ReportProtocol.PROOF);
            assertArrayEquals(ReportProtocol.agentProof(secret, agent, proxy), proof);
            byte[] key = ReportProtocol.sessionKey(secret, agent, proxy);
            for (int sequence = 1; sequence <= count; sequence++)
            {
                byte[] report = in.readNBytes(ReportProtocol.REPORT);
                byte[] mac = ReportProtocol.mac(key, Arrays.copyOf(report, ReportProtocol.BODY));
                assertArrayEquals(mac, Arrays.copyOfRange(report, ReportProtocol.BODY, ReportProtocol.REPORT));
                assertEquals(sequence, ByteBuffer.wrap(report).getLong(8));
                assertEquals(3, ByteBuffer.wrap(report).getInt(96), "compactions");
                assertEquals(0x0123456789abcdefL, ByteBuffer.wrap(report).getLong(104));
            }
        }
    }

    private static void assertClosed(Socket socket) throws IOException
    {
        try
        {
            socket.getInputStream().readAllBytes();
        }
        catch (SocketException reset)
        {
            // Closed as well.
        }
    }

    @Test
    void reportsComeToThoseThatKnowTheSecret() throws Exception
    {
        int port = start("a secret of some length\n".getBytes());
        receiveReports(port, ReportProtocolTest.SECRET, 3);
        try (Socket socket = connect(port))
        {
            DataInputStream in = new DataInputStream(socket.getInputStream());
            byte[] agent = greeted(in);
            byte[] proxy = ReportProtocolTest.nonce(7);
            socket.getOutputStream().write(ReportProtocolTest.answer(ReportProtocol.OPEN, agent, proxy).array());
            assertThrows(EOFException.class, in::readByte);
        }
        // The file may change while the node runs.
        Thread.sleep(20);
        Files.writeString(folder.resolve("secret"), "another secret, as long");
        receiveReports(port, "another secret, as long".getBytes(), 1);
    }

    @Test
    void withoutASecretOnlyOnLoopback() throws Exception
    {
        receiveReports(start(null), ReportProtocol.OPEN, 2);
        Map<String, String> properties = Map.of(Settings.REPORT_PORT, "0", Settings.REPORT_ADDRESS, "0.0.0.0");
        Reporter open = new Reporter(new Settings(properties::get), ReporterTest::sampler, () -> null);
        String message = assertThrows(IOException.class, open::serve).getMessage();
        assertTrue(message.contains("not loopback"), message);
        Files.writeString(folder.resolve("short"), "short\n");
        Map<String, String> tooShort =
            Map.of(Settings.REPORT_PORT, "0", Settings.REPORT_SECRET_FILE, folder.resolve("short").toString());
        Reporter weak = new Reporter(new Settings(tooShort::get), ReporterTest::sampler, () -> null);
        message = assertThrows(IOException.class, weak::serve).getMessage();
        assertTrue(message.contains("less than 16 bytes"), message);
    }

    @Test
    void garbageEndsAConnectionAndOnlyThat() throws Exception
    {
        int port = start(null);
        long seed = System.nanoTime();
        Random random = new Random(seed);
        for (int i = 0; i < 50; i++)
        {
            byte[] garbage = new byte[ReportProtocol.ANSWER + random.nextInt(100)];
            random.nextBytes(garbage);
            try (Socket socket = connect(port))
            {
                socket.getOutputStream().write(garbage);
                assertClosed(socket);
            }
            catch (SocketException reset)
            {
                // Closed while it was being written to.
            }
        }
        // And after a good answer.
        try (Socket socket = connect(port))
        {
            DataInputStream in = new DataInputStream(socket.getInputStream());
            byte[] answer =
                ReportProtocolTest.answer(ReportProtocol.OPEN, greeted(in), ReportProtocolTest.nonce(9)).array();
            socket.getOutputStream().write(answer);
            in.readNBytes(ReportProtocol.PROOF + ReportProtocol.REPORT);
            socket.getOutputStream().write(1);
            assertClosed(socket);
        }
        receiveReports(port, ReportProtocol.OPEN, 2);
        System.out.println("seed " + seed);
    }

    @Test
    void silentConnectionsMakeRoom() throws Exception
    {
        int port = start(null);
        List<Socket> silent = new ArrayList<>();
        try
        {
            for (int i = 0; i < 3 * CONNECTIONS_MAX; i++)
                silent.add(connect(port));
            receiveReports(port, ReportProtocol.OPEN, 2);
        }
        finally
        {
            for (Socket socket : silent)
                socket.close();
        }
    }

    @Test
    void asManyAreToldAsTheSettingSays() throws Exception
    {
        int port = start(null);
        List<Socket> told = new ArrayList<>();
        try
        {
            for (int i = 0; i < CONNECTIONS_MAX; i++)
            {
                told.add(connect(port));
                DataInputStream in = new DataInputStream(told.get(i).getInputStream());
                byte[] proxy = ReportProtocolTest.nonce(i);
                byte[] answer = ReportProtocolTest.answer(ReportProtocol.OPEN, greeted(in), proxy).array();
                told.get(i).getOutputStream().write(answer);
                assertEquals(ReportProtocol.PROOF, in.readNBytes(ReportProtocol.PROOF).length);
            }
            // None of these makes room for another.
            try (Socket another = connect(port))
            {
                assertClosed(another);
            }
            for (Socket socket : told)
                assertEquals(ReportProtocol.REPORT, socket.getInputStream().readNBytes(ReportProtocol.REPORT).length);
        }
        finally
        {
            for (Socket socket : told)
                socket.close();
        }
    }

    @Test
    void whoDoesNotReadIsLeft() throws Exception
    {
        int port = start(null);
        try (Socket socket = new Socket())
        {
            socket.setReceiveBufferSize(1_024);
            socket.connect(new java.net.InetSocketAddress(InetAddress.getLoopbackAddress(), port));
            DataInputStream in = new DataInputStream(socket.getInputStream());
            byte[] answer =
                ReportProtocolTest.answer(ReportProtocol.OPEN, greeted(in), ReportProtocolTest.nonce(9)).array();
            socket.getOutputStream().write(answer);
            // It is left when its buffers are full: 20 reports of 152 bytes come each second.
            long begin = System.nanoTime();
            Thread.sleep(8_000);
            receiveReports(port, ReportProtocol.OPEN, 2);
            int received = in.readAllBytes().length;
            System.out.println(received + " bytes in " + (System.nanoTime() - begin) / 1_000_000 + " ms");
            assertTrue(received < 8 * 20 * ReportProtocol.REPORT, received + " bytes");
        }
    }
}
