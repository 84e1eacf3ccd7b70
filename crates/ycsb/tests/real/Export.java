import java.io.PrintWriter;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.Vector;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;
import site.ycsb.measurements.Measurements;
import site.ycsb.workloads.CoreWorkload;

/**
 * Runs the CoreWorkload of the real YCSB on a database that only counts, and writes the counts: how often each kind of
 * operation, each record, each distance from the newest record, each scan length, each field and each field length was asked for.
 *
 * One file per case. Its lines are a name and numbers: `records 5 0 7` says that record 0 was asked for 5 times, record 1 never.
 * Records that did not exist at the beginning are counted together in `new`. `behind` counts 1, 2, 3 ... records behind the
 * newest one, up to the number of records; what is further behind is in its last number.
 */
public final class Export {
  private static final int RECORDS = 2000;
  private static final int OPERATIONS = 500_000;

  /** The workload, which says how it names its keys. */
  private static final class Core extends CoreWorkload {
    String key(long number) {
      return buildKeyName(number);
    }
  }

  /** A database that counts what it is asked for. */
  private static class Counting extends DB {
    private final Map<String, Integer> numbers = new HashMap<>();
    private final Core workload;
    private final TreeMap<String, Long> kinds = new TreeMap<>();
    private final TreeMap<String, Long> fields = new TreeMap<>();
    private final TreeMap<Integer, Long> lengths = new TreeMap<>();
    private final TreeMap<Integer, Long> scans = new TreeMap<>();
    private final long[] records = new long[RECORDS];
    private final long[] behind = new long[RECORDS + 1];
    private long fresh = 0;
    /** The record that is inserted next. */
    private int next;
    private String readLast = null;

    Counting(Core workload, int insertstart) {
      this.workload = workload;
      next = insertstart;
      // Other loaders may have inserted what this one does not.
      for (int number = 0; number < RECORDS; number++) {
        numbers.put(workload.key(number), number);
      }
    }

    private void kind(String name) {
      kinds.merge(name, 1L, Long::sum);
    }

    private void asked(String key) {
      Integer number = numbers.get(key);
      if (number == null) {
        throw new IllegalStateException("a record that was not inserted: " + key);
      }
      if (number < RECORDS) {
        records[number]++;
      } else {
        fresh++;
      }
      behind[Math.min(next - 1 - number, RECORDS)]++;
    }

    private void written(Map<String, ByteIterator> values) {
      for (Map.Entry<String, ByteIterator> value : values.entrySet()) {
        fields.merge(value.getKey(), 1L, Long::sum);
        lengths.merge((int) value.getValue().bytesLeft(), 1L, Long::sum);
      }
    }

    @Override
    public Status read(String table, String key, Set<String> names, Map<String, ByteIterator> result) {
      kind("read");
      asked(key);
      readLast = key;
      return Status.OK;
    }

    @Override
    public Status update(String table, String key, Map<String, ByteIterator> values) {
      // The second half of a read-modify-write asks for the record that was read just now.
      if (!key.equals(readLast)) {
        asked(key);
      }
      kind("update");
      written(values);
      return Status.OK;
    }

    @Override
    public Status insert(String table, String key, Map<String, ByteIterator> values) {
      String expected = workload.key(next);
      if (!expected.equals(key)) {
        throw new IllegalStateException("inserted " + key + ", expected " + expected);
      }
      numbers.put(key, next);
      next++;
      kind("insert");
      written(values);
      return Status.OK;
    }

    @Override
    public Status scan(String table, String key, int count, Set<String> names,
        Vector<HashMap<String, ByteIterator>> result) {
      kind("scan");
      asked(key);
      scans.merge(count, 1L, Long::sum);
      // The workload divides by the number of results.
      result.add(new HashMap<>());
      return Status.OK;
    }

    @Override
    public Status delete(String table, String key) {
      throw new IllegalStateException("the core workloads delete nothing");
    }

    /** All records are there; forgets what the load phase has counted. */
    void loaded() {
      next = RECORDS;
      kinds.clear();
      fields.clear();
      lengths.clear();
    }
  }

  private static Properties properties(Map<String, String> special) {
    Properties all = new Properties();
    all.setProperty("recordcount", Integer.toString(RECORDS));
    all.setProperty("operationcount", Integer.toString(OPERATIONS));
    special.forEach(all::setProperty);
    return all;
  }

  private static String numbers(long[] counts) {
    StringBuilder line = new StringBuilder();
    Arrays.stream(counts).forEach(count -> line.append(' ').append(count));
    return line.toString();
  }

  private static String pairs(Map<?, Long> counts) {
    StringBuilder line = new StringBuilder();
    counts.forEach((name, count) -> line.append(' ').append(name).append('=').append(count));
    return line.toString();
  }

  private static void run(String folder, String name, Map<String, String> special) throws Exception {
    Properties all = properties(special);
    Core workload = new Core();
    workload.init(all);
    Counting db = new Counting(workload, Integer.parseInt(all.getProperty("insertstart", "0")));
    int insertcount = Integer.parseInt(all.getProperty("insertcount", Integer.toString(RECORDS)));
    for (int record = 0; record < insertcount; record++) {
      workload.doInsert(db, null);
    }
    db.loaded();
    boolean modifies = Double.parseDouble(all.getProperty("readmodifywriteproportion", "0")) > 0;
    for (int operation = 0; operation < OPERATIONS; operation++) {
      db.readLast = null;
      workload.doTransaction(db, null);
    }
    if (modifies) {
      // In these cases every update is the second half of a read-modify-write.
      long updates = db.kinds.remove("update");
      db.kinds.merge("read", -updates, Long::sum);
      db.kinds.put("read-modify-write", updates);
    }
    try (PrintWriter out = new PrintWriter(folder + "/" + name + ".txt", "UTF-8")) {
      out.println("# Counted by crates/ycsb/tests/real/export.sh with YCSB 0.17.0 on " + LocalDate.now() + ".");
      special.forEach((key, value) -> out.println("property " + key + "=" + value));
      out.println("recordcount " + RECORDS);
      out.println("operationcount " + OPERATIONS);
      out.println("operations" + pairs(db.kinds));
      out.println("fields" + pairs(db.fields));
      out.println("lengths" + pairs(db.lengths));
      out.println("scans" + pairs(db.scans));
      out.println("new " + db.fresh);
      out.println("records" + numbers(db.records));
      out.println("behind" + numbers(db.behind));
    }
  }

  private static Map<String, String> map(String... pairs) {
    Map<String, String> map = new LinkedHashMap<>();
    for (String pair : pairs) {
      int at = pair.indexOf('=');
      map.put(pair.substring(0, at), pair.substring(at + 1));
    }
    return map;
  }

  /** Names of keys, so that the hash and the padding can be compared. */
  private static void keys(String folder) throws Exception {
    try (PrintWriter out = new PrintWriter(folder + "/keys.txt", "UTF-8")) {
      out.println("# Counted by crates/ycsb/tests/real/export.sh with YCSB 0.17.0 on " + LocalDate.now() + ".");
      out.println("# record, zeropadding, hashed, ordered");
      List<Long> numbers = new ArrayList<>();
      for (long number = 0; number < 20; number++) {
        numbers.add(number);
      }
      numbers.addAll(List.of(999L, 123_456_789L, 2_147_483_647L, 10_000_000_000L, Long.MAX_VALUE));
      for (int padding : new int[] {1, 12, 24}) {
        Core hashed = new Core();
        hashed.init(properties(map("zeropadding=" + padding)));
        Core ordered = new Core();
        ordered.init(properties(map("zeropadding=" + padding, "insertorder=ordered")));
        for (long number : numbers) {
          out.println(number + " " + padding + " " + hashed.key(number) + " " + ordered.key(number));
        }
      }
    }
  }

  /** What is written to records when reads are to be checked. */
  private static void values(String folder) throws Exception {
    Core workload = new Core();
    workload.init(properties(map("dataintegrity=true", "fieldcount=2", "fieldlength=73")));
    try (PrintWriter out = new PrintWriter(folder + "/values.txt", "UTF-8")) {
      out.println("# Counted by crates/ycsb/tests/real/export.sh with YCSB 0.17.0 on " + LocalDate.now() + ".");
      out.println("# field, value, for record 0, 1, 2 ...");
      DB db = new Counting(workload, 0) {
        @Override
        public Status insert(String table, String key, Map<String, ByteIterator> values) {
          new TreeMap<>(values).forEach((field, value) -> out.println(field + " " + value));
          return Status.OK;
        }
      };
      for (int record = 0; record < 5; record++) {
        workload.doInsert(db, null);
      }
    }
  }

  public static void main(String[] arguments) throws Exception {
    String folder = arguments[0];
    Measurements.setProperties(new Properties());
    keys(folder);
    values(folder);
    // The six core workloads, as their property files have them.
    run(folder, "a", map("readproportion=0.5", "updateproportion=0.5", "requestdistribution=zipfian"));
    run(folder, "b", map("readproportion=0.95", "updateproportion=0.05", "requestdistribution=zipfian"));
    run(folder, "c", map("readproportion=1", "updateproportion=0", "requestdistribution=zipfian"));
    run(folder, "d", map("readproportion=0.95", "updateproportion=0", "insertproportion=0.05",
        "requestdistribution=latest"));
    run(folder, "e", map("readproportion=0", "updateproportion=0", "scanproportion=0.95", "insertproportion=0.05",
        "requestdistribution=zipfian", "maxscanlength=100", "scanlengthdistribution=uniform"));
    run(folder, "f", map("readproportion=0.5", "updateproportion=0", "readmodifywriteproportion=0.5",
        "requestdistribution=zipfian"));
    // The other distributions.
    run(folder, "uniform", map("requestdistribution=uniform", "fieldlengthdistribution=uniform", "minfieldlength=20",
        "fieldlength=60", "updateproportion=0.5", "readproportion=0.5"));
    run(folder, "hotspot", map("requestdistribution=hotspot", "hotspotdatafraction=0.1", "hotspotopnfraction=0.7",
        "fieldlengthdistribution=zipfian", "minfieldlength=5", "fieldlength=50", "updateproportion=0.5",
        "readproportion=0.5"));
    run(folder, "exponential", map("requestdistribution=exponential", "exponential.percentile=90",
        "exponential.frac=0.3", "insertproportion=0.02"));
    run(folder, "sequential", map("requestdistribution=sequential", "scanproportion=0.3", "minscanlength=3",
        "maxscanlength=40", "scanlengthdistribution=zipfian", "insertorder=ordered"));
    run(folder, "part", map("requestdistribution=zipfian", "insertstart=500", "insertcount=1000",
        "writeallfields=true", "fieldcount=3", "fieldnameprefix=f"));
  }
}
