-- The index of a space over the binary codes of its passages' vectors, built while others read and write.
CREATE INDEX CONCURRENTLY {name} ON search_passage
USING hnsw ((binary_quantize(embedding::halfvec({dimensions}))::bit({dimensions})) bit_hamming_ops)
WHERE space_id = {space}
