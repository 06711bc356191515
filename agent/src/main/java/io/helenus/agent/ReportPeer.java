package io.helenus.agent;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.security.GeneralSecurityException;

/** One proxy's connection. Whatever it says that is not the one expected answer ends it. */
final class ReportPeer
{
    private final SocketChannel channel;
    private final byte[] secret;
    private final byte[] nonce;
    final long acceptedNanos;
    /** One byte more than is expected, to notice that there is more. */
    private final ByteBuffer answer = ByteBuffer.allocate(ReportProtocol.ANSWER + 1);
    /** Null until the proxy has proved that it knows the secret. */
    private byte[] key;
    private long sequence;

    ReportPeer(SocketChannel channel, byte[] secret, byte[] nonce, long nowNanos)
    {
        this.channel = channel;
        this.secret = secret;
        this.nonce = nonce;
        this.acceptedNanos = nowNanos;
    }

    boolean isTrusted()
    {
        return key != null;
    }

    /** Why the connection ends. */
    static final class Ended extends IOException
    {
        private static final long serialVersionUID = 1;
        /** That the proxy has the wrong secret is worth a line in the log. */
        final boolean isRefusal;

        Ended(String why, boolean isRefusal)
        {
            super(why);
            this.isRefusal = isRefusal;
        }
    }

    void greet(boolean hasSecret, int intervalMs) throws IOException
    {
        write(ReportProtocol.greeting(hasSecret, intervalMs, nonce));
    }

    /** Reads what there is. */
    void read() throws IOException, GeneralSecurityException
    {
        int read = channel.read(answer);
        if (read < 0)
            throw new Ended("closed by the proxy", false);
        if (read > 0 && (isTrusted() || !answer.hasRemaining()))
            throw new Ended("more was sent than is expected", false);
        if (isTrusted() || answer.position() < ReportProtocol.ANSWER)
            return;
        byte[] proxyNonce = ReportProtocol.verify(secret, nonce, answer.flip());
        if (proxyNonce == null)
            throw new Ended("the proxy does not know the secret, or is of another version", true);
        answer.clear();
        write(ByteBuffer.wrap(ReportProtocol.agentProof(secret, nonce, proxyNonce)));
        key = ReportProtocol.sessionKey(secret, nonce, proxyNonce);
    }

    void report(Resources resources, int intervalMs) throws IOException, GeneralSecurityException
    {
        write(ReportProtocol.report(key, ++sequence, System.nanoTime(), intervalMs, resources));
    }

    /** A proxy that does not read what little it is sent is of no use. */
    private void write(ByteBuffer bytes) throws IOException
    {
        channel.write(bytes);
        if (bytes.hasRemaining())
            throw new Ended("the proxy does not read", false);
    }

    void close()
    {
        try
        {
            channel.close();
        }
        catch (IOException closed)
        {
            // Closed it is.
        }
    }
}
