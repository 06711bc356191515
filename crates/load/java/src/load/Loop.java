package load;

import com.datastax.oss.driver.api.core.DefaultConsistencyLevel;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Phaser;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.HdrHistogram.ConcurrentHistogram;
import org.HdrHistogram.HistogramIterationValue;

/**
 * One cell. Closed loop: each client sends its next request when the previous one is answered. Open loop
 * (`rate` above zero): requests are sent on schedule, and their latency counts from then.
 */
final class Loop {
  private static final long LATENCY_US_MAX = 600_000_000L;
  private static final int IN_FLIGHT_MAX = 20_000;

  private final Statements statements;
  private final List<Request> requests;
  private final boolean isScan;
  private final DefaultConsistencyLevel level;
  private final int clients;
  private final double rate;
  private final long warmupNs;
  private final long timeNs;

  private final ConcurrentHistogram latencies = new ConcurrentHistogram(LATENCY_US_MAX, 3);
  private final ConcurrentHashMap<String, LongAdder> errors = new ConcurrentHashMap<>();
  private final LongAdder inFlight = new LongAdder();
  private final Phaser running = new Phaser(1);

  Loop(Statements statements, Map<String, String> cell, List<Request> requests) {
    this.statements = statements;
    this.requests = requests;
    isScan = cell.get("kind").equals("scan");
    level = DefaultConsistencyLevel.valueOf(cell.get("level"));
    clients = Integer.parseInt(cell.get("clients"));
    rate = Double.parseDouble(cell.get("rate"));
    warmupNs = Long.parseLong(cell.get("warmup_us")) * 1000;
    timeNs = Long.parseLong(cell.get("time_us")) * 1000;
  }

  /** Returns what was measured, as JSON. */
  String run() {
    long began = System.nanoTime();
    long measuredFrom = began + warmupNs;
    long end = measuredFrom + timeNs;
    if (rate > 0) {
      sendOnSchedule(began, measuredFrom, end);
    } else {
      for (int client = 0; client < clients; client++) {
        // Each begins elsewhere in the same sequence of requests.
        running.register();
        next((int) ((long) client * requests.size() / clients), measuredFrom, end);
      }
    }
    running.arriveAndAwaitAdvance();
    return result((System.nanoTime() - measuredFrom) / 1000);
  }

  /** Sends one request after another as long as answers are there at once; otherwise goes on with them. */
  private void next(int place, long measuredFrom, long end) {
    while (true) {
      long started = System.nanoTime();
      if (started - end >= 0) {
        running.arriveAndDeregister();
        return;
      }
      CompletableFuture<Void> sent = send(place);
      int following = (place + 1) % requests.size();
      boolean isMeasured = started - measuredFrom >= 0;
      if (!sent.isDone()) {
        sent.whenComplete(
            (answer, error) -> {
              record(started, isMeasured, error);
              next(following, measuredFrom, end);
            });
        return;
      }
      record(started, isMeasured, errorOf(sent));
      place = following;
    }
  }

  private void sendOnSchedule(long began, long measuredFrom, long end) {
    for (long number = 0; ; number++) {
      long intended = began + Math.round(number * 1e9 / rate);
      if (intended - end >= 0) {
        return;
      }
      for (long left = intended - System.nanoTime(); left > 0; left = intended - System.nanoTime()) {
        LockSupport.parkNanos(left);
      }
      boolean isMeasured = intended - measuredFrom >= 0;
      if (inFlight.sum() >= IN_FLIGHT_MAX) {
        if (isMeasured) {
          count("not sent");
        }
        continue;
      }
      inFlight.increment();
      running.register();
      send((int) (number % requests.size()))
          .whenComplete(
              (answer, error) -> {
                record(intended, isMeasured, error);
                inFlight.decrement();
                running.arriveAndDeregister();
              });
    }
  }

  private CompletableFuture<Void> send(int place) {
    try {
      return statements.send(requests.get(place), isScan, level);
    } catch (RuntimeException error) {
      return CompletableFuture.failedFuture(error);
    }
  }

  private static Throwable errorOf(CompletableFuture<Void> done) {
    try {
      done.join();
      return null;
    } catch (RuntimeException error) {
      return error;
    }
  }

  private void record(long started, boolean isMeasured, Throwable error) {
    if (!isMeasured) {
      return;
    }
    if (error == null) {
      long us = (System.nanoTime() - started) / 1000;
      latencies.recordValue(Math.max(1, Math.min(us, LATENCY_US_MAX)));
      return;
    }
    Throwable cause = error instanceof CompletionException ? error.getCause() : error;
    boolean isWrong = cause instanceof Statements.WrongAnswer;
    count(isWrong ? cause.getMessage() : cause.getClass().getSimpleName());
  }

  private void count(String error) {
    errors.computeIfAbsent(error, key -> new LongAdder()).increment();
  }

  private String result(long windowUs) {
    StringJoiner counts = new StringJoiner(",", "[", "]");
    for (HistogramIterationValue value : latencies.recordedValues()) {
      counts.add("[" + value.getValueIteratedTo() + "," + value.getCountAtValueIteratedTo() + "]");
    }
    StringJoiner failed = new StringJoiner(",", "{", "}");
    errors.forEach((error, times) -> failed.add("\"" + error + "\":" + times.sum()));
    return "{\"window_us\":" + windowUs + ",\"latencies_us\":" + counts + ",\"errors\":" + failed + "}";
  }
}
