// Reads a build with SQLite shards from a local folder, with nothing but the JDK (17 or newer): a start for readers in other languages.
//
//     javac SnapshotReader.java
//     java SnapshotReader get /lake/builds/features_by_user '4711' '"N14228"' '{"base64": "AGE="}'
//     java SnapshotReader vectors build-format-vectors.json
//
// Keys are given as JSON, rows are printed as JSON, one line for each key. The format is described in build-format.md.

import java.io.IOException;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

public final class SnapshotReader {
    private static final long MAX_PUBLICATION = (1L << 53) - 1;

    private final Path root;
    private final Map<Integer, Sqlite> open = new HashMap<>();
    private Map<String, Object> pointer;
    private Map<String, Object> manifest;
    private String path;

    /** Open the build that {@code _CURRENT} names, or the nearest one before it whose manifest is whole. */
    public SnapshotReader(Path root) throws IOException {
        this.root = root;
        reload();
    }

    /** Read {@code _CURRENT} again, and return whether it names another publication, which is read from now on. */
    public final synchronized boolean reload() throws IOException {
        Map<String, Object> pointer = parsed(Files.readAllBytes(root.resolve("_CURRENT")), "snowpack-build-pointer");
        long publication = (Long) pointer.get("publication");
        if (publication < 1 || publication > MAX_PUBLICATION) {
            throw new Damaged("_CURRENT has the publication " + publication);
        }
        long seen = this.pointer == null ? 0 : (Long) this.pointer.get("publication");
        if (!follows(publication, seen)) {
            return false;
        }
        this.pointer = pointer;
        try {
            use((String) pointer.get("manifest"), (String) pointer.get("checksum"));
        } catch (Damaged | NoSuchFileException problem) {
            stepBack((String) pointer.get("manifest"), null, problem);
        }
        return true;
    }

    private static boolean follows(long publication, long seen) {
        return publication > seen || publication < seen && seen == MAX_PUBLICATION;
    }

    private static boolean isWhole(byte[] data, Map<String, Object> shard) {
        return data.length == (Long) shard.get("bytes") && checksum(data).equals(shard.get("checksum"));
    }

    private void use(String path, String checksum) throws IOException {
        manifest = manifest(path, checksum);
        this.path = path;
        open.clear();
    }

    /** Use the build before a damaged one, whose manifest is null if that is what is damaged. */
    private void stepBack(String damaged, Map<String, Object> manifest, IOException problem) throws IOException {
        boolean current = damaged.equals(pointer.get("manifest")) && pointer.get("previous") != null;
        Object previous = current ? pointer.get("previous") : manifest == null ? null : manifest.get("previous");
        if (previous == null) {
            throw problem;
        }
        try {
            use((String) previous, current ? (String) pointer.get("previous_checksum") : null);
        } catch (Damaged | NoSuchFileException another) {
            throw problem; // a damaged manifest does not lead further back
        }
    }

    @SuppressWarnings("serial")
    public static final class Damaged extends IOException {
        Damaged(String problem) {
            super(problem);
        }
    }

    private Map<String, Object> manifest(String path, String checksum) throws IOException {
        byte[] data = Files.readAllBytes(root.resolve(path));
        if (checksum != null && !checksum(data).equals(checksum)) {
            throw new Damaged(path + " has another checksum");
        }
        Map<String, Object> found = parsed(data, "snowpack-build-manifest");
        if (!"sqlite".equals(found.get("shard_format"))) {
            throw new IOException(path + " has " + found.get("shard_format") + " shards, and this reader reads sqlite");
        }
        return found;
    }

    private static Map<String, Object> parsed(byte[] data, String format) throws IOException {
        Map<String, Object> content = object(new Json(new String(data, StandardCharsets.UTF_8)).document());
        if (!format.equals(content.get("format")) || !Long.valueOf(1).equals(content.get("version"))) {
            throw new Damaged("not version 1 of " + format);
        }
        return content;
    }

    /** Return the first row with this key (a Long, a String or a byte[]), or null; of the build before, if a file is damaged. */
    public synchronized Map<String, Object> get(Object key) throws IOException {
        while (true) {
            try {
                return found(key);
            } catch (Damaged | NoSuchFileException problem) {
                if (!reload()) { // a cleanup deletes builds that readers have left
                    stepBack(path, manifest, problem);
                }
            }
        }
    }

    private Map<String, Object> found(Object key) throws IOException {
        for (int shard : shards(key)) {
            Map<String, Object> row = shard(shard).get(key);
            if (row != null) {
                return row;
            }
        }
        return null;
    }

    private List<Integer> shards(Object key) throws IOException {
        Map<String, Object> sharding = object(manifest.get("sharding"));
        long count = (Long) sharding.get("num_shards");
        List<Integer> found = new ArrayList<>();
        if ("hash".equals(sharding.get("kind"))) {
            found.add((int) Long.remainderUnsigned(xxh3(canonical(key)), count));
        } else {
            for (int shard = 0; shard < count; shard++) {
                Map<String, Object> entry = entry(shard);
                boolean filled = entry.get("min_key") != null && (Long) entry.get("rows") > 0;
                if (filled && compare(key(entry.get("min_key")), key) <= 0 && compare(key, key(entry.get("max_key"))) <= 0) {
                    found.add(shard);
                }
            }
        }
        found.removeIf(shard -> ((Long) entry(shard).get("rows")) == 0);
        return found;
    }

    private Map<String, Object> entry(int shard) {
        return object(((List<?>) manifest.get("shards")).get(shard));
    }

    private synchronized Sqlite shard(int shard) throws IOException {
        Sqlite found = open.get(shard);
        if (found == null) {
            Map<String, Object> entry = entry(shard);
            byte[] data = Files.readAllBytes(root.resolve((String) entry.get("url")));
            if (!isWhole(data, entry)) {
                throw new Damaged(entry.get("url") + " does not match the manifest");
            }
            List<String> columns = new ArrayList<>();
            for (Object column : (List<?>) manifest.get("columns")) {
                columns.add((String) object(column).get("name"));
            }
            found = new Sqlite(data, columns, (String) object(manifest.get("key")).get("column"));
            open.put(shard, found);
        }
        return found;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    // -- keys ------------------------------------------------------------------------------------------------------------------

    /** The key that JSON has: a number, a text, or {"base64": "…"}. */
    static Object key(Object json) {
        return json instanceof Map<?, ?> bytes ? Base64.getDecoder().decode((String) bytes.get("base64")) : json;
    }

    static byte[] canonical(Object key) {
        if (key instanceof Long number) {
            return ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(number).array();
        }
        return key instanceof String text ? text.getBytes(StandardCharsets.UTF_8) : (byte[]) key;
    }

    static int compare(Object one, Object other) {
        if (one instanceof Long number && other instanceof Long another) {
            return Long.compare(number, another);
        }
        return Arrays.compareUnsigned(canonical(one), canonical(other));
    }

    // -- xxh3-64, seed 0 -------------------------------------------------------------------------------------------------------

    private static final byte[] SECRET = new java.math.BigInteger(
            "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6"
            + "813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931"
            + "c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f"
            + "95160428afd7fbcabb4b407e", 16).toByteArray();
    private static final long P32_1 = 0x9E3779B1L, P32_2 = 0x85EBCA77L, P32_3 = 0xC2B2AE3DL;
    private static final long P64_1 = 0x9E3779B185EBCA87L, P64_2 = 0xC2B2AE3D27D4EB4FL, P64_3 = 0x165667B19E3779F9L;
    private static final long P64_4 = 0x85EBCA77C2B2AE63L, P64_5 = 0x27D4EB2F165667C5L;
    private static final long MX1 = 0x165667919E3779F9L, MX2 = 0x9FB21C651E98DF25L;

    static String checksum(byte[] data) {
        return String.format("xxh3_64:%016x", xxh3(data));
    }

    static long xxh3(byte[] data) {
        ByteBuffer in = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
        // The number has a leading zero byte, as its first one is negative otherwise.
        ByteBuffer secret = ByteBuffer.wrap(SECRET, SECRET.length - 192, 192).slice().order(ByteOrder.LITTLE_ENDIAN);
        int n = data.length;
        if (n > 240) {
            return ofMany(in, secret, n);
        }
        if (n > 128) {
            return ofMiddle(in, secret, n);
        }
        if (n > 16) {
            long acc = n * P64_1;
            for (int i = (n - 1) / 32; i >= 0; i--) {
                acc += mix(in, 16 * i, secret, 32 * i) + mix(in, n - 16 * (i + 1), secret, 32 * i + 16);
            }
            return avalanche(acc);
        }
        return ofFew(in, secret, n);
    }

    private static long ofFew(ByteBuffer in, ByteBuffer secret, int n) {
        if (n > 8) {
            long low = in.getLong(0) ^ secret.getLong(24) ^ secret.getLong(32);
            long high = in.getLong(n - 8) ^ secret.getLong(40) ^ secret.getLong(48);
            return avalanche(n + Long.reverseBytes(low) + high + folded(low, high));
        }
        if (n >= 4) {
            long h = (in.getInt(n - 4) & 0xFFFFFFFFL) + ((long) in.getInt(0) << 32) ^ secret.getLong(8) ^ secret.getLong(16);
            h ^= Long.rotateLeft(h, 49) ^ Long.rotateLeft(h, 24);
            h *= MX2;
            h ^= (h >>> 35) + n;
            h *= MX2;
            return h ^ (h >>> 28);
        }
        if (n == 0) {
            return oldAvalanche(secret.getLong(56) ^ secret.getLong(64));
        }
        int first = in.get(0) & 0xFF, middle = in.get(n >> 1) & 0xFF, last = in.get(n - 1) & 0xFF;
        long combined = ((first << 16) | (middle << 24) | (n << 8) | last) & 0xFFFFFFFFL;
        return oldAvalanche(combined ^ ((secret.getInt(0) ^ secret.getInt(4)) & 0xFFFFFFFFL));
    }

    private static long ofMiddle(ByteBuffer in, ByteBuffer secret, int n) {
        long acc = n * P64_1;
        for (int i = 0; i < 8; i++) {
            acc += mix(in, 16 * i, secret, 16 * i);
        }
        acc = avalanche(acc);
        for (int i = 8; i < n / 16; i++) {
            acc += mix(in, 16 * i, secret, 16 * (i - 8) + 3);
        }
        return avalanche(acc + mix(in, n - 16, secret, 136 - 17));
    }

    private static long ofMany(ByteBuffer in, ByteBuffer secret, int n) {
        long[] acc = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1};
        int stripes = (n - 1) / 64;
        for (int stripe = 0; stripe < stripes; stripe++) {
            accumulate(acc, in, 64 * stripe, secret, 8 * (stripe % 16));
            if (stripe % 16 == 15) {
                for (int i = 0; i < 8; i++) {
                    acc[i] = (acc[i] ^ (acc[i] >>> 47) ^ secret.getLong(128 + 8 * i)) * P32_1;
                }
            }
        }
        accumulate(acc, in, n - 64, secret, 121);
        long result = n * P64_1;
        for (int i = 0; i < 4; i++) {
            result += folded(acc[2 * i] ^ secret.getLong(11 + 16 * i), acc[2 * i + 1] ^ secret.getLong(19 + 16 * i));
        }
        return avalanche(result);
    }

    private static void accumulate(long[] acc, ByteBuffer in, int at, ByteBuffer secret, int with) {
        for (int i = 0; i < 8; i++) {
            long value = in.getLong(at + 8 * i), keyed = value ^ secret.getLong(with + 8 * i);
            acc[i ^ 1] += value;
            acc[i] += (keyed & 0xFFFFFFFFL) * (keyed >>> 32);
        }
    }

    private static long mix(ByteBuffer in, int at, ByteBuffer secret, int with) {
        return folded(in.getLong(at) ^ secret.getLong(with), in.getLong(at + 8) ^ secret.getLong(with + 8));
    }

    private static long folded(long a, long b) {
        return (a * b) ^ (Math.multiplyHigh(a, b) + ((a >> 63) & b) + ((b >> 63) & a));
    }

    private static long avalanche(long h) {
        h ^= h >>> 37;
        h *= MX1;
        return h ^ (h >>> 32);
    }

    private static long oldAvalanche(long h) {
        h ^= h >>> 33;
        h *= P64_2;
        h ^= h >>> 29;
        h *= P64_3;
        return h ^ (h >>> 32);
    }

    // -- a shard ---------------------------------------------------------------------------------------------------------------

    /** As much of SQLite's file format as a look-up by key needs; with a driver for SQLite none of this is necessary. */
    static final class Sqlite {
        private final ByteBuffer file;
        private final int pageSize;
        private final int usable;
        private final List<String> columns;
        private final int keyAt;
        private int rows;
        private int index;
        private boolean withoutRowId;
        private boolean keyIsRowId;

        Sqlite(byte[] data, List<String> columns, String keyColumn) {
            this.file = ByteBuffer.wrap(data);
            int size = file.getShort(16) & 0xFFFF;
            this.pageSize = size == 1 ? 65536 : size;
            this.usable = pageSize - (file.get(20) & 0xFF);
            this.columns = columns;
            this.keyAt = columns.indexOf(keyColumn);
            readSchema(1);
        }

        private void readSchema(int number) {
            Page page = new Page(number);
            for (int cell = 0; cell < page.cells; cell++) {
                if (page.interior) {
                    readSchema(page.child(cell));
                    continue;
                }
                List<Object> entry = page.record(cell);
                int root = ((Long) entry.get(3)).intValue();
                if ("index".equals(entry.get(0)) && "rows_by_key".equals(entry.get(1))) {
                    index = root;
                } else if ("rows".equals(entry.get(1))) {
                    rows = root;
                    withoutRowId = ((String) entry.get(4)).endsWith("WITHOUT ROWID");
                    keyIsRowId = !withoutRowId && ((String) entry.get(4)).contains(" INTEGER PRIMARY KEY");
                }
            }
            if (page.interior) {
                readSchema(page.child(page.cells));
            }
        }

        Map<String, Object> get(Object key) {
            if (withoutRowId) {
                return named(search(rows, key), true, null);
            }
            Object rowId = key;
            if (!keyIsRowId) {
                List<Object> found = search(index, key);
                if (found == null) {
                    return null;
                }
                rowId = found.get(1);
            }
            return named(row(rows, (Long) rowId), false, keyIsRowId ? key : null);
        }

        /** The values by their columns' names; a table without row ids stores its key first, one with them not at all. */
        private Map<String, Object> named(List<Object> values, boolean keyFirst, Object key) {
            if (values == null) {
                return null;
            }
            Map<String, Object> row = new LinkedHashMap<>();
            for (int at = 0; at < columns.size(); at++) {
                int stored = !keyFirst ? at : at == keyAt ? 0 : at < keyAt ? at + 1 : at;
                row.put(columns.get(at), at == keyAt && key != null ? key : values.get(stored));
            }
            return row;
        }

        private List<Object> row(int number, long rowId) {
            Page page = new Page(number);
            for (int cell = 0; cell < page.cells; cell++) {
                long found = page.rowId(cell);
                if (page.interior && rowId <= found) {
                    return row(page.child(cell), rowId);
                }
                if (!page.interior && rowId == found) {
                    return page.record(cell);
                }
            }
            return page.interior ? row(page.child(page.cells), rowId) : null;
        }

        /** The first entry of an index, or of a table without row ids, that has this key first. */
        private List<Object> search(int number, Object key) {
            Page page = new Page(number);
            for (int cell = 0; cell < page.cells; cell++) {
                List<Object> entry = page.record(cell);
                int order = compare(key, entry.get(0));
                if (order > 0) {
                    continue;
                }
                List<Object> earlier = page.interior ? search(page.child(cell), key) : null;
                return earlier != null || order < 0 ? earlier : entry;
            }
            return page.interior ? search(page.child(page.cells), key) : null;
        }

        private final class Page {
            final int begin;
            final int header;
            final boolean interior;
            final boolean ofTable;
            final int cells;

            Page(int number) {
                begin = (number - 1) * pageSize;
                header = number == 1 ? begin + 100 : begin;
                int kind = file.get(header);
                interior = kind == 2 || kind == 5;
                ofTable = kind == 5 || kind == 13;
                cells = file.getShort(header + 3) & 0xFFFF;
            }

            private int at(int cell) {
                return begin + (file.getShort(header + (interior ? 12 : 8) + 2 * cell) & 0xFFFF);
            }

            int child(int cell) {
                return file.getInt(cell == cells ? header + 8 : at(cell));
            }

            long rowId(int cell) {
                Cursor cursor = new Cursor(file, at(cell) + (interior ? 4 : 0));
                if (!interior) {
                    cursor.varint();
                }
                return cursor.varint();
            }

            List<Object> record(int cell) {
                Cursor cursor = new Cursor(file, at(cell) + (interior ? 4 : 0));
                int length = (int) cursor.varint();
                if (ofTable) {
                    cursor.varint();
                }
                int most = ofTable ? usable - 35 : (usable - 12) * 64 / 255 - 23;
                int least = (usable - 12) * 32 / 255 - 23;
                int surplus = least + (length - least) % (usable - 4);
                int here = length <= most ? length : surplus <= most ? surplus : least;
                byte[] payload = new byte[length];
                file.get(cursor.at, payload, 0, here);
                int next = here == length ? 0 : file.getInt(cursor.at + here);
                while (next != 0) {
                    int overflow = (next - 1) * pageSize, part = Math.min(usable - 4, length - here);
                    file.get(overflow + 4, payload, here, part);
                    here += part;
                    next = file.getInt(overflow);
                }
                return values(ByteBuffer.wrap(payload));
            }
        }

        private static List<Object> values(ByteBuffer record) {
            Cursor types = new Cursor(record, 0);
            int end = (int) types.varint(), at = end;
            List<Object> values = new ArrayList<>();
            while (types.at < end) {
                int type = (int) types.varint();
                int length = type >= 12 ? (type - 12) / 2 : type >= 8 ? 0 : new int[] {0, 1, 2, 3, 4, 6, 8, 8}[type];
                values.add(value(record, at, type, length));
                at += length;
            }
            return values;
        }

        private static Object value(ByteBuffer record, int at, int type, int length) {
            if (type == 0) {
                return null;
            }
            if (type == 7) {
                return record.getDouble(at);
            }
            if (type < 10) {
                long number = length == 0 ? type - 8 : record.get(at);
                for (int i = 1; i < length; i++) {
                    number = number << 8 | record.get(at + i) & 0xFF;
                }
                return number;
            }
            byte[] bytes = Arrays.copyOfRange(record.array(), at, at + length);
            return type % 2 == 0 ? bytes : new String(bytes, StandardCharsets.UTF_8);
        }
    }

    private static final class Cursor {
        final ByteBuffer in;
        int at;

        Cursor(ByteBuffer in, int at) {
            this.in = in;
            this.at = at;
        }

        long varint() {
            long value = 0;
            for (int i = 0; i < 8; i++) {
                byte part = in.get(at++);
                value = value << 7 | part & 0x7F;
                if (part >= 0) {
                    return value;
                }
            }
            return value << 8 | in.get(at++) & 0xFF;
        }
    }

    // -- JSON ------------------------------------------------------------------------------------------------------------------

    /** Integers become Long, so that no digit is lost; those beyond 64 bits and fractions become BigDecimal. */
    static final class Json {
        private final String text;
        private int at;

        Json(String text) {
            this.text = text;
        }

        Object document() throws Damaged {
            try {
                Object value = value();
                if (next() != '\0') {
                    throw new Damaged("more than one JSON value");
                }
                return value;
            } catch (IndexOutOfBoundsException | NumberFormatException error) {
                throw new Damaged("not JSON: " + error.getMessage());
            }
        }

        private char next() {
            while (at < text.length() && " \n\r\t".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
            return at < text.length() ? text.charAt(at) : '\0';
        }

        private Object value() throws Damaged {
            switch (next()) {
                case '{':
                    Map<String, Object> object = new LinkedHashMap<>();
                    for (at++; next() != '}'; skip(',', '}')) {
                        String name = string();
                        skip(':', ':');
                        object.put(name, value());
                    }
                    at++;
                    return object;
                case '[':
                    List<Object> list = new ArrayList<>();
                    for (at++; next() != ']'; skip(',', ']')) {
                        list.add(value());
                    }
                    at++;
                    return list;
                case '"':
                    return string();
                default:
                    return plain();
            }
        }

        private void skip(char wanted, char end) throws Damaged {
            if (next() == wanted) {
                at++;
            } else if (next() != end) {
                throw new Damaged("not JSON at character " + at);
            }
        }

        private Object plain() throws Damaged {
            int begin = at;
            while (at < text.length() && ",]} \n\r\t".indexOf(text.charAt(at)) < 0) {
                at++;
            }
            String word = text.substring(begin, at);
            switch (word) {
                case "null":
                    return null;
                case "true":
                    return true;
                case "false":
                    return false;
                default:
                    BigDecimal number = new BigDecimal(word);
                    boolean whole = word.matches("-?\\d+") && number.toBigInteger().bitLength() < 64;
                    return whole ? (Object) number.longValueExact() : number;
            }
        }

        private String string() throws Damaged {
            if (next() != '"') {
                throw new Damaged("not JSON at character " + at);
            }
            StringBuilder found = new StringBuilder();
            for (at++; text.charAt(at) != '"'; at++) {
                char character = text.charAt(at);
                if (character != '\\') {
                    found.append(character);
                    continue;
                }
                character = text.charAt(++at);
                int known = "bfnrt".indexOf(character);
                if (character == 'u') {
                    found.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                    at += 4;
                } else {
                    found.append(known < 0 ? character : "\b\f\n\r\t".charAt(known));
                }
            }
            at++;
            return found.toString();
        }

        static String of(Object value) {
            if (value instanceof byte[] bytes) {
                return "{\"base64\": \"" + Base64.getEncoder().encodeToString(bytes) + "\"}";
            }
            if (value instanceof Map<?, ?> object) {
                List<String> parts = new ArrayList<>();
                object.forEach((name, each) -> parts.add(of(name) + ": " + of(each)));
                return "{" + String.join(", ", parts) + "}";
            }
            if (value instanceof String text) {
                StringBuilder quoted = new StringBuilder("\"");
                for (char character : text.toCharArray()) {
                    boolean plain = character >= ' ' && character < 127 && character != '"' && character != '\\';
                    quoted.append(plain ? String.valueOf(character) : String.format("\\u%04x", (int) character));
                }
                return quoted.append('"').toString();
            }
            if (value instanceof Double number && number.isInfinite()) {
                return number > 0 ? "1e999" : "-1e999";
            }
            return String.valueOf(value);
        }
    }

    // -- the command -----------------------------------------------------------------------------------------------------------

    public static void main(String[] arguments) throws IOException {
        if (arguments.length == 2 && arguments[0].equals("vectors")) {
            System.out.println(checkVectors(Path.of(arguments[1])) + " vectors hold");
        } else if (arguments.length >= 2 && arguments[0].equals("get")) {
            SnapshotReader reader = new SnapshotReader(Path.of(arguments[1]));
            for (int at = 2; at < arguments.length; at++) {
                System.out.println(Json.of(reader.get(key(new Json(arguments[at]).document()))));
            }
        } else {
            System.err.println("Usage: SnapshotReader get FOLDER KEY... | SnapshotReader vectors FILE");
            System.exit(2);
        }
    }

    /** Check the vectors of the format, and return how many there are. */
    static int checkVectors(Path file) throws IOException {
        Map<String, Object> vectors = object(new Json(Files.readString(file)).document());
        int held = 0;
        for (Object each : (List<?>) vectors.get("keys")) {
            Map<String, Object> vector = object(each);
            byte[] bytes = canonical(key(vector.get("key")));
            check(vector, java.util.HexFormat.of().formatHex(bytes), vector.get("canonical"));
            check(vector, String.format("%016x", xxh3(bytes)), vector.get("xxh3_64"));
            for (Map.Entry<String, Object> shard : object(vector.get("shards")).entrySet()) {
                check(vector, Long.remainderUnsigned(xxh3(bytes), Long.parseLong(shard.getKey())), shard.getValue());
            }
            held++;
        }
        for (Object each : (List<?>) vectors.get("checksums")) {
            Map<String, Object> vector = object(each);
            check(vector, checksum(Base64.getDecoder().decode((String) vector.get("base64"))), vector.get("checksum"));
            held++;
        }
        for (Object each : (List<?>) vectors.get("pointers")) {
            Map<String, Object> vector = object(each);
            check(vector, follows((Long) vector.get("publication"), (Long) vector.get("seen")), vector.get("follows"));
            held++;
        }
        for (Object each : (List<?>) vectors.get("shards")) {
            Map<String, Object> vector = object(each);
            check(vector, isWhole(Base64.getDecoder().decode((String) vector.get("base64")), vector), vector.get("sound"));
            held++;
        }
        for (Object each : (List<?>) vectors.get("records")) {
            Map<String, Object> vector = object(each);
            check(vector, isSound((String) vector.get("text"), (String) vector.get("format")), vector.get("sound"));
            held++;
        }
        return held;
    }

    /** Whether a record is in its format, and, of an attempt, what was written. */
    private static boolean isSound(String text, String format) {
        try {
            Map<String, Object> content = parsed(text.getBytes(StandardCharsets.UTF_8), format);
            if (format.equals("snowpack-build-pointer")) {
                return content.get("publication") instanceof Long number && number >= 1 && number <= MAX_PUBLICATION;
            }
            if (!(content.get("record_checksum") instanceof String checksum)) {
                return false;
            }
            String unsealed = text.replace(checksum, "xxh3_64:0000000000000000");
            return checksum.equals(checksum(unsealed.getBytes(StandardCharsets.UTF_8)));
        } catch (IOException error) {
            return false;
        }
    }

    private static void check(Object vector, Object found, Object wanted) {
        if (!found.equals(wanted)) {
            throw new AssertionError(Json.of(vector) + ": found " + found + ", not " + wanted);
        }
    }
}
